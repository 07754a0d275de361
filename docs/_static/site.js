// From a folder a browser lets no page read another, so a search shows titles alone there.
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = window.location.protocol !== "file:";

// What the theme leaves without a name: the side bar as a region, and the switches that open a part of it.
document.addEventListener("DOMContentLoaded", () => {
  const side = document.getElementById("pst-primary-sidebar");
  if (side) {
    side.setAttribute("role", "complementary");
    side.setAttribute("aria-label", "Site");
  }
  for (const toggle of document.querySelectorAll("li.has-children > details > summary")) {
    const page = toggle.closest("li").querySelector(":scope > a");
    toggle.setAttribute("aria-label", `Pages below ${page ? page.textContent.trim() : "this one"}`);
  }
});
