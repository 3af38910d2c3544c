// Everything here is a convenience: without it the page shows the same figures.
(() => {
  "use strict";
  const root = document.documentElement;

  // The theme: the system's until the reader chooses.
  const button = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("flyball-theme"); } catch { return null; } };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  if (["light", "dark"].includes(stored())) root.dataset.theme = stored();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("flyball-theme", root.dataset.theme); } catch { /* a page without storage forgets */ }
    name();
  });
  dark.addEventListener("change", name);
  name();

  // What a mark is, at a tap or under the pointer.
  const tip = document.getElementById("tip");
  const hide = () => { tip.hidden = true; };
  const show = (mark) => {
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const at = mark.getBoundingClientRect();
    const left = at.left + at.width / 2 - tip.offsetWidth / 2;
    const above = at.top - tip.offsetHeight - 8;
    tip.style.left = Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (above > 4 ? above : at.bottom + 8) + "px";
  };
  for (const mark of document.querySelectorAll("use")) {
    const title = mark.querySelector("title");
    if (!title) continue;
    mark.dataset.tip = title.textContent;
    title.remove();
    mark.addEventListener("pointerenter", () => show(mark));
    mark.addEventListener("pointerleave", (e) => { if (e.pointerType === "mouse") hide(); });
    mark.addEventListener("click", (e) => { e.stopPropagation(); show(mark); });
  }
  document.addEventListener("click", hide);
  document.addEventListener("keydown", (e) => { if (e.key === "Escape") hide(); });
  addEventListener("scroll", hide, { passive: true });

  // Commands to copy.
  if (navigator.clipboard) {
    for (const block of document.querySelectorAll("pre.command")) {
      const copy = document.createElement("button");
      copy.type = "button";
      copy.className = "copy";
      copy.textContent = "Copy";
      copy.addEventListener("click", async () => {
        try { await navigator.clipboard.writeText(block.querySelector("code").textContent); copy.textContent = "Copied"; }
        catch { copy.textContent = "Select it"; }
        setTimeout(() => { copy.textContent = "Copy"; }, 1500);
      });
      block.append(copy);
    }
  }

  // On paper nothing can be unfolded: what is needed to do it again is printed.
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("#reproduce details")) folded.open = true;
  });

  // One trace at a time, chosen from a list.
  const traces = [...document.querySelectorAll("details.trace")];
  const choice = document.getElementById("trace-choice");
  if (choice && traces.length > 1) {
    const select = choice.querySelector("select");
    traces.forEach((trace, i) => select.add(new Option(trace.querySelector("summary").textContent, i)));
    const pick = () => traces.forEach((trace, i) => { trace.open = i === select.selectedIndex; trace.hidden = !trace.open; });
    select.addEventListener("change", pick);
    root.classList.add("choosing");
    choice.hidden = false;
    pick();
  }
})();
