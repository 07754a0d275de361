"""Many machines: one block a card, on Ray; the driver's store keeps the records."""
