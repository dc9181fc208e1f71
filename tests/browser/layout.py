"""What is wrong with the layout of a page, as its own script finds it."""

LAYOUT = """(() => {
  const faults = [], box = e => e.getBoundingClientRect(), words = e => e.textContent.trim();
  const told = e => `${e.tagName.toLowerCase()} "${words(e).slice(0, 40)}" at ` +
    `${Math.round(box(e).left)}…${Math.round(box(e).right)}`;
  const seen = e => box(e).width > 0 && box(e).height > 0 && !e.closest("svg *");
  const scrolls = e => {
    for (e = e.parentElement; e && e !== document.body; e = e.parentElement)
      if (["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX)) return true;
    return false;
  };
  for (const e of document.querySelectorAll("body *"))
    if (seen(e) && (box(e).right > innerWidth + 1 || box(e).left < -1 && box(e).right > 1)
        && !scrolls(e))
      faults.push("beyond the screen: " + told(e));
  const apart = (a, b) => box(a).right <= box(b).left + 1 || box(b).right <= box(a).left + 1
    || box(a).bottom <= box(b).top + 3 || box(b).bottom <= box(a).top + 3;
  for (const frame of document.querySelectorAll(".frame")) {
    const labels = [...frame.querySelectorAll("span, .name-x, .name-y")].filter(seen);
    labels.forEach((a, i) => labels.slice(i + 1).forEach(b => apart(a, b)
      || faults.push(`one on another: ${told(a)} and ${told(b)}`)));
  }
  return faults;
})()"""
"""Elements wider than the window that do not scroll, and labels of plots that lie on others."""
