"""No torch in the stand-in: the canary of a card fails at once, with this as its reason."""

raise ImportError("no torch beside the stand-in for vLLM")
