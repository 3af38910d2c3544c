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
  const show = (mark, text) => {
    tip.textContent = text;
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
    const text = title.textContent;
    title.remove();
    mark.addEventListener("pointerenter", () => show(mark, text));
    mark.addEventListener("pointerleave", (e) => { if (e.pointerType === "mouse") hide(); });
    mark.addEventListener("click", (e) => { e.stopPropagation(); show(mark, text); });
  }
  // Under a pointer the browser shows these by itself; a finger has to tap.
  for (const mark of document.querySelectorAll("td[title], span[title]")) {
    mark.addEventListener("click", (e) => { e.stopPropagation(); show(mark, mark.title); });
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

  // Tables: the head of a column sorts by it, and a box keeps the rows that hold a text.
  const ordered = (a, b) => a.localeCompare(b, undefined, { numeric: true });
  const compare = (a, b) => {
    if (a.dataset.v !== undefined && b.dataset.v !== undefined) return Number(a.dataset.v) - Number(b.dataset.v);
    return ordered(a.textContent, b.textContent);
  };
  // What has no value stands last, whichever way the others go.
  const lacks = (cell, numeric) => (numeric ? cell.dataset.v === undefined : cell.textContent === "");
  const FILTER_FROM = 8;
  for (const table of document.querySelectorAll("table.sortable")) {
    const groups = [...table.tBodies].filter((body) => !body.classList.contains("axis-row"))
      .map((body) => ({ body, rows: [...body.rows].filter((row) => !row.classList.contains("group")) }));
    const rows = groups.flatMap((group) => group.rows);
    if (rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const cells = rows.map((row) => row.cells[column]);
      const numeric = cells.some((cell) => cell.dataset.v !== undefined);
      // Figures in words, as intervals are, have no order.
      if (!numeric && (cells.some((cell) => cell.classList.contains("n")) || cells.every((cell) => !cell.textContent.trim()))) return;
      const sort = document.createElement("button");
      sort.type = "button";
      sort.className = "sort";
      sort.textContent = head.textContent;
      head.replaceChildren(sort);
      sort.addEventListener("click", () => {
        const down = head.ariaSort === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        for (const group of groups) {
          const sorted = [...group.rows].sort((a, b) => {
            const [x, y] = [a.cells[column], b.cells[column]];
            if (lacks(x, numeric) || lacks(y, numeric)) return lacks(x, numeric) - lacks(y, numeric);
            return down ? compare(y, x) : compare(x, y);
          });
          group.body.append(...sorted);
        }
      });
    });
    if (rows.length < FILTER_FROM) continue;
    const label = document.createElement("label");
    label.className = "filter";
    const input = document.createElement("input");
    input.type = "search";
    const count = document.createElement("span");
    count.setAttribute("role", "status");
    label.append("Rows with ", input, " ", count);
    (table.closest(".scroll") || table).before(label);
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase().split(/\s+/);
      for (const group of groups) {
        const title = group.body.querySelector(".group")?.textContent ?? "";
        for (const row of group.rows) {
          const text = `${title} ${row.textContent}`.toLowerCase();
          row.hidden = !wanted.every((word) => text.includes(word));
        }
        group.body.hidden = group.rows.every((row) => row.hidden);
      }
      const kept = rows.filter((row) => !row.hidden).length;
      count.textContent = kept === rows.length ? "" : `${kept} of ${rows.length}`;
    });
  }

  // One line through all plots of a trace, with what each shows there; a stretch that is dragged over is
  // zoomed into, and Escape or a double click shows all again.
  const element = (name, kind, box) => {
    const made = document.createElementNS(box.namespaceURI, name);
    made.setAttribute("class", kind);
    made.setAttribute("y1", 0); made.setAttribute("y2", "100%"); made.setAttribute("height", "100%");
    made.style.display = "none";
    box.append(made);
    return made;
  };
  // The pieces of a path as points: one absolute, the others relative to the one before.
  const pieces = (d) => d.split("M").slice(1).map((piece) => {
    const numbers = piece.match(/-?\d+/g).map(Number);
    const points = [[numbers[0], numbers[1]]];
    for (let i = 2; i + 1 < numbers.length; i += 2) {
      const [x, y] = points[points.length - 1];
      points.push([x + numbers[i], y + numbers[i + 1]]);
    }
    return points;
  });
  const heightAt = (path, x) => {
    for (const points of path) {
      for (let i = 1; i < points.length; i++) {
        const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
        if (x0 < x1 && x0 <= x && x <= x1) return y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
      }
    }
    return undefined;
  };
  const shown = (value) => String(Number(value.toPrecision(3)));
  for (const trace of document.querySelectorAll("details.trace")) {
    let [from, to] = [0, 1];
    let at = 0.5;
    let drag;
    const plots = [...trace.querySelectorAll("svg.plot")].map((plot) => {
      const chart = plot.closest("figure");
      const box = plot.parentElement;
      const reading = document.createElement("span");
      reading.className = "reading";
      chart.querySelector("figcaption").append(reading);
      const stacked = plot.querySelector(".area") !== null;
      const drawn = [...plot.querySelectorAll(".stroke, .area")];
      if (stacked) drawn.reverse();
      const names = [...chart.querySelectorAll(".legend li")].map((entry) => entry.textContent.trim());
      const view = plot.viewBox.baseVal;
      const all = { width: view.width, height: view.height };
      const ends = [...box.parentElement.querySelectorAll(".ends span")];
      return { plot, box, reading, stacked, drawn, names, all, ends, line: element("line", "crosshair", box), part: element("rect", "selected", box) };
    });
    if (!plots.length) continue;
    const seconds = Number(plots[0].plot.dataset.seconds);
    const read = (one) => {
      // Two units are kept free above and below for the strokes.
      const margin = one.all.height / 66;
      const value = (y) => Number(one.plot.dataset.end) * (1 - (y - margin) / (one.all.height - 2 * margin));
      // A path is drawn in some five hundred steps upwards: no more digits than those are known.
      const digits = Math.max(0, Math.ceil(-Math.log10(Number(one.plot.dataset.end) / 500)));
      one.paths ??= one.drawn.map((path) => pieces(path.getAttribute("d")));
      let below = 0;
      return one.paths.map((path, i) => {
        const y = heightAt(path, at * one.all.width);
        if (y === undefined) return `${one.names[i]} –`;
        const top = value(y);
        const own = one.stacked ? Math.max(0, top - below) : top;
        below = top;
        return `${one.names[i]} ${own.toFixed(Math.min(digits, 20))}`;
      });
    };
    const clear = () => { for (const one of plots) { one.line.style.display = one.part.style.display = "none"; one.reading.textContent = ""; } };
    const draw = () => {
      const place = `${((at - from) / (to - from)) * 100}%`;
      for (const one of plots) {
        one.line.style.display = "";
        one.line.setAttribute("x1", place); one.line.setAttribute("x2", place);
        one.reading.textContent = `${shown(at * seconds)} s: ${read(one).join(", ")} ${one.plot.dataset.unit}`;
        one.part.style.display = drag === undefined ? "none" : "";
        if (drag !== undefined) {
          const share = (where) => ((where - from) / (to - from)) * 100;
          one.part.setAttribute("x", `${Math.min(share(drag), share(at))}%`);
          one.part.setAttribute("width", `${Math.abs(share(at) - share(drag))}%`);
        }
      }
    };
    const zoom = (a, b) => {
      [from, to] = [Math.max(0, a), Math.min(1, b)];
      at = Math.min(Math.max(at, from), to);
      for (const one of plots) {
        one.plot.setAttribute("viewBox", `${from * one.all.width} 0 ${(to - from) * one.all.width} ${one.all.height}`);
        if (one.ends.length === 2) {
          one.whole ??= one.ends.map((end) => end.textContent);
          const zoomed = [from, to].map((end) => `${shown(end * seconds)} s`);
          one.ends.forEach((end, i) => { end.textContent = from === 0 && to === 1 ? one.whole[i] : zoomed[i]; });
        }
      }
    };
    const whole = () => { zoom(0, 1); clear(); };
    for (const { box } of plots) {
      const share = (e) => {
        const rect = box.getBoundingClientRect();
        return from + Math.min(Math.max((e.clientX - rect.left) / rect.width, 0), 1) * (to - from);
      };
      box.tabIndex = 0;
      box.addEventListener("pointermove", (e) => { at = share(e); draw(); });
      box.addEventListener("pointerdown", (e) => { if (e.pointerType === "mouse") drag = share(e); });
      box.addEventListener("pointerup", (e) => {
        const [a, b] = [drag, share(e)].sort((x, y) => x - y);
        drag = undefined;
        if (b - a > (to - from) / 50) { zoom(a, b); draw(); }
      });
      box.addEventListener("pointerleave", () => { drag = undefined; clear(); });
      box.addEventListener("dblclick", whole);
      box.addEventListener("blur", clear);
      box.addEventListener("keydown", (e) => {
        const step = (to - from) / 100;
        const quarter = (to - from) / 4;
        if (e.key === "ArrowLeft") at = Math.max(from, at - step);
        else if (e.key === "ArrowRight") at = Math.min(to, at + step);
        else if (e.key === "+") zoom(at - quarter, at + quarter);
        else if (e.key === "-") zoom(at - 4 * quarter, at + 4 * quarter);
        else if (e.key === "Escape") { whole(); return; }
        else return;
        e.preventDefault();
        draw();
      });
    }
  }

  // On paper nothing can be unfolded: what is needed to do it again is printed.
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details.printed")) folded.open = true;
  });

  // One trace at a time, chosen from a list.
  const traces = [...document.querySelectorAll("details.trace")];
  const choice = document.getElementById("trace-choice");
  if (choice && traces.length > 1) {
    const select = choice.querySelector("select");
    traces.forEach((trace, i) => select.add(new Option(trace.querySelector("summary").textContent, i)));
    const pick = () => traces.forEach((trace, i) => { trace.open = i === select.selectedIndex; trace.hidden = !trace.open; });
    select.selectedIndex = Math.max(0, traces.findIndex((trace) => trace.open));
    select.addEventListener("change", pick);
    root.classList.add("choosing");
    choice.hidden = false;
    pick();
  }
})();
