// The view of a timeline. What is drawn is in the page, packed as crates/timeline/src/packed.rs says.
(async () => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const say = (text) => { $("state").textContent = text; $("state").hidden = text === ""; };

  // ---- What is in the page -----------------------------------------------------------------------------------

  async function unpacked() {
    if (!("DecompressionStream" in window)) throw new Error("this browser cannot unpack gzip; one of 2023 or newer can");
    const text = atob($("packed").textContent.trim());
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    $("packed").remove();
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // A track of spans becomes three columns: begins, ends, labels. Times are nanoseconds since the first.
  function spansOf(bytes, track) {
    const { count } = track;
    const begins = new Float64Array(count), ends = new Float64Array(count), labels = new Uint32Array(count);
    let at = track.at, time = 0;
    const number = () => {
      let value = 0, factor = 1, byte;
      do { byte = bytes[at++]; value += (byte & 127) * factor; factor *= 128; } while (byte > 127);
      return value;
    };
    for (let i = 0; i < count; i++) {
      time += number(); begins[i] = time;
      time += number(); ends[i] = time;
      labels[i] = number();
    }
    return { begins, ends, labels };
  }

  // Values that hold until the next; NaN is none.
  function stepsOf(bytes, track) {
    const { count } = track;
    const begins = new Float64Array(count), values = new Float32Array(count);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let at = track.at, time = 0, most = track.mark || 0;
    for (let i = 0; i < count; i++) {
      let value = 0, factor = 1, byte;
      do { byte = bytes[at++]; value += (byte & 127) * factor; factor *= 128; } while (byte > 127);
      time += value; begins[i] = time;
      values[i] = view.getFloat32(at, true); at += 4;
      if (values[i] > most) most = values[i];
    }
    return { begins, values, most };
  }

  say("Unpacking …");
  let bytes;
  try { bytes = await unpacked(); } catch (error) { say(`This page cannot be shown: ${error.message}`); return; }
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const data = bytes.subarray(4 + length);
  const { classes, labels, span } = head;
  const FAN = 16;
  const tracks = [];
  for (const group of head.groups) {
    for (const track of group.tracks) {
      track.group = group;
      track.long = `${group.name} · ${track.name}`;
      Object.assign(track, track.kind === "steps" ? stepsOf(data, track) : spansOf(data, track));
      if (track.levels) track.levels = track.levels.map(([at, count]) => data.subarray(at, at + 2 * count));
      tracks.push(track);
    }
  }
  document.title = head.title;
  $("title").textContent = head.title;
  $("about").textContent = head.about;
  for (const note of head.notes) {
    const item = document.createElement("li");
    item.textContent = note;
    $("notes").append(item);
  }
  $("noted").hidden = head.notes.length === 0;
  $("noted-count").textContent = head.notes.length === 1 ? "1 remark" : `${head.notes.length} remarks`;

  // ---- Colours -----------------------------------------------------------------------------------------------

  const dark = matchMedia("(prefers-color-scheme: dark)");
  // Canvas pixels of this order are those of machines with the lowest byte first, which all browsers run on.
  const packedColour = (hex) => {
    const number = parseInt(hex.slice(1), 16);
    return (255 << 24 | (number & 255) << 16 | (number >> 8 & 255) << 8 | number >> 16) >>> 0;
  };
  const mixed = (colour, with_, share) => {
    const part = (shift) => Math.round((colour >> shift & 255) * share + (with_ >> shift & 255) * (1 - share)) << shift;
    return (255 << 24 | part(16) | part(8) | part(0)) >>> 0;
  };
  const SHADES = 16;
  let shades, edges, theme;
  function dye() {
    const style = getComputedStyle(document.documentElement);
    theme = Object.fromEntries(["ground", "ink", "muted", "line", "band", "mark", "steps"]
      .map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    const ground = packedColour(theme.ground);
    const colours = classes.map((one) => packedColour(dark.matches ? one.dark : one.light));
    // By class and share of the time, in sixteenths; nothing is fainter than a quarter, so that it is seen.
    shades = colours.map((colour) =>
      Uint32Array.from({ length: SHADES + 1 }, (_, n) => mixed(colour, ground, 0.25 + 0.75 * n / SHADES)));
    edges = colours.map((colour) => mixed(colour, ground, 0.62));
  }
  dye();

  // ---- Rows --------------------------------------------------------------------------------------------------

  const canvas = $("canvas"), stage = $("stage"), spacer = $("spacer"), tip = $("tip");
  const context = canvas.getContext("2d", { alpha: false });
  const RULER = 26, HEIGHTS = { group: 20, spans: 18, steps: 30 };
  const pinned = [];
  let rows = [], pins = [], width = 0, height = 0, side = 0, ratio = 1;
  // A screen shows some thirty rows: what has more than its share is folded at first.
  const SHARE = 12;
  const same = (kind) => head.groups.filter((group) => group.tracks[0].kind === kind).reduce((sum, group) => sum + group.tracks.length, 0);
  for (const group of head.groups) {
    const { kind } = group.tracks[0];
    group.folded = group.minor || group.tracks.length > SHARE || (kind === "cpu" && same("cpu") > 2 * SHARE);
  }

  function lay() {
    rows = [];
    let y = 0;
    const put = (row, h) => { rows.push(Object.assign(row, { y, h })); y += h; };
    for (const group of head.groups) {
      // A folded group shows its first track.
      put({ group, track: group.folded ? group.tracks[0] : null }, group.folded ? HEIGHTS[shape(group.tracks[0])] : HEIGHTS.group);
      if (!group.folded) for (const track of group.tracks) put({ track }, HEIGHTS[shape(track)]);
    }
    let top = 0;
    pins = pinned.map((track) => {
      const row = { track, y: top, h: HEIGHTS[shape(track)] };
      top += row.h;
      return row;
    });
    pins.height = top && top + 3;
    spacer.style.height = `${y + RULER + pins.height}px`;
  }
  const shape = (track) => (track.kind === "steps" ? "steps" : "spans");

  function measure() {
    const box = stage.getBoundingClientRect();
    ratio = window.devicePixelRatio || 1;
    width = stage.clientWidth; height = box.height;
    side = width < 640 ? 104 : 210;
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
    image = new ImageData(Math.max(1, Math.round((width - side) * ratio)), 1);
    pixels = new Uint32Array(image.data.buffer);
    strip.width = image.width;
  }
  const strip = document.createElement("canvas");
  strip.height = 1;
  const stripped = strip.getContext("2d", { alpha: false });
  let image, pixels;

  // ---- Time --------------------------------------------------------------------------------------------------

  const view = { from: 0, to: span };
  const LEAST = 50; // Nanoseconds: less is not known.
  function show(from, to) {
    const length = Math.min(Math.max(to - from, LEAST), span);
    const begin = Math.min(Math.max(0, from), span - length);
    view.from = begin; view.to = begin + length;
    remember();
    redraw();
  }
  // The address names what is shown, so that it can be sent: nanoseconds from and to.
  let late = 0;
  function remember() {
    clearTimeout(late);
    late = setTimeout(() => {
      const name = wide() < span ? `#${Math.round(view.from)}-${Math.round(view.to)}` : " ";
      try { history.replaceState(null, "", name === " " ? location.pathname : name); } catch { /* not of every page */ }
    }, 400);
  }
  const wide = () => view.to - view.from;
  const perPixel = () => (view.to - view.from) / (width - side);
  const timeAt = (x) => view.from + (x - side) * perPixel();
  const xOf = (time) => side + (time - view.from) / perPixel();
  const zoom = (factor, around) => show(around - (around - view.from) * factor, around + (view.to - around) * factor);

  // The first that ends behind this time.
  function firstBehind(ends, time) {
    let low = 0, high = ends.length;
    while (low < high) { const middle = (low + high) >> 1; if (ends[middle] <= time) low = middle + 1; else high = middle; }
    return low;
  }
  // The last that begins at or before this time; -1 for none.
  function lastBefore(begins, time) {
    let low = 0, high = begins.length;
    while (low < high) { const middle = (low + high) >> 1; if (begins[middle] <= time) low = middle + 1; else high = middle; }
    return low - 1;
  }

  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const trim = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  function lasting(ns) {
    const [unit, name] = UNITS.find(([unit]) => ns >= unit) || UNITS[3];
    return `${trim((ns / unit).toPrecision(4))} ${name}`;
  }
  const counted = (value, unit) => {
    if (unit === "1/s") unit = "/s";
    // Seconds in a second: a share of the time, or how many at once.
    if (unit === "s/s") return trim(value.toPrecision(3));
    const [factor, prefix] = unit === "%" ? [1, ""]
      : [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([factor]) => Math.abs(value) >= factor) || [1, ""];
    return `${trim((value / factor).toPrecision(4))} ${prefix}${unit}`.trim();
  };

  // ---- Drawing -----------------------------------------------------------------------------------------------

  // One row of pixels. A part of the track that is narrower than a pixel is one of its class that has most of
  // the time; what is wider is looked at in its parts. So a frame costs what the screen is wide, however much
  // is recorded.
  function paint(track, ground) {
    pixels.fill(ground);
    const { begins, ends, labels: of, levels } = track;
    const wide = pixels.length, scale = wide / (view.to - view.from);
    const first = firstBehind(ends, view.from), last = lastBefore(begins, view.to);
    if (first > last) return;
    let painted = -1;
    const one = (index) => {
      const kind = labels[of[index]][1];
      const left = Math.max(0, (begins[index] - view.from) * scale), right = (ends[index] - view.from) * scale;
      const from = left | 0, to = Math.min(wide, Math.max(from + 1, Math.round(right)));
      if (to - 1 <= painted) return;
      const full = shades[kind][SHADES];
      for (let x = Math.max(from, painted + 1); x < to; x++) pixels[x] = full;
      if (to - from > 3 && begins[index] >= view.from) pixels[from] = edges[kind];
      painted = to - 1;
    };
    const visit = (level, index) => {
      const size = FAN ** level, low = index * size, high = Math.min(begins.length, low + size) - 1;
      if (high < first || low > last) return;
      const left = (begins[low] - view.from) * scale, right = (ends[high] - view.from) * scale;
      if (right - left > 1 || left < 0) {
        const end = Math.min(begins.length, low + size), step = size / FAN;
        if (level === 1) { for (let i = Math.max(low, first); i <= Math.min(high, last); i++) one(i); return; }
        for (let i = low; i < end; i += step) visit(level - 1, i / step);
        return;
      }
      const x = left | 0;
      if (x <= painted || x >= wide) return;
      const node = levels[level - 1];
      pixels[x] = shades[node[2 * index]][node[2 * index + 1] * SHADES / 255 | 0];
      painted = x;
    };
    if (levels.length === 0) { for (let i = first; i <= last; i++) one(i); return; }
    const top = levels.length, size = FAN ** top;
    for (let i = first / size | 0; i * size <= last; i++) visit(top, i);
  }

  function words(track, y, h) {
    const { begins, ends, labels: of } = track;
    const room = perPixel() * 34;
    const first = firstBehind(ends, view.from), last = lastBefore(begins, view.to);
    // Where so many are in sight, few have room for a word.
    if (last - first > 4000) return;
    context.font = "11px " + FONT; context.textBaseline = "middle";
    for (let i = first; i <= last; i++) {
      if (ends[i] - begins[i] < room) continue;
      const left = Math.max(side, xOf(begins[i])), right = Math.min(width, xOf(ends[i]));
      const [name, kind] = labels[of[i]];
      const text = fitted(name, right - left - 8);
      if (!text) continue;
      context.fillStyle = classes[kind].bright ? "#14181d" : "#ffffff";
      if (dark.matches) context.fillStyle = classes[kind].bright ? "#e8eaed" : "#ffffff";
      context.fillText(text, left + 4, y + h / 2);
    }
  }
  const FONT = '-apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", "Noto Sans", sans-serif';
  const widths = new Map();
  const wideOf = (text) => {
    if (!widths.has(text)) { if (widths.size > 20000) widths.clear(); widths.set(text, context.measureText(text).width); }
    return widths.get(text);
  };
  function fitted(text, room) {
    if (wideOf(text) <= room) return text;
    const letters = Math.floor(text.length * room / wideOf(text)) - 1;
    return letters >= 3 ? text.slice(0, letters) + "…" : "";
  }

  function line(track, y, h) {
    const { begins, values, most, unit } = track;
    if (begins.length === 0 || most <= 0) return;
    const step = perPixel() / ratio, base = y + h - 2, tall = h - 6;
    context.fillStyle = theme.steps;
    let i = Math.max(0, lastBefore(begins, view.from));
    // The highest of each pixel, so that none is missed; as far as one level goes, it is one rectangle.
    let from = 0, level = -1;
    const pixelCount = Math.round((width - side) * ratio);
    const flush = (to) => {
      if (level > 0 && to > from) context.fillRect(side + from / ratio, base - level * tall, (to - from) / ratio, level * tall);
    };
    for (let x = 0; x < pixelCount; x++) {
      const until = view.from + (x + 1) * step;
      let high = begins[i] <= until && !Number.isNaN(values[i]) ? values[i] : 0;
      while (i + 1 < begins.length && begins[i + 1] <= until) { i++; if (values[i] > high) high = values[i]; }
      const here = high / most;
      if (here !== level) { flush(x); from = x; level = here; }
    }
    flush(pixelCount);
    if (track.mark !== undefined) {
      context.fillStyle = theme.mark;
      context.fillRect(side, base - tall * track.mark / most, width - side, 1);
    }
    context.fillStyle = theme.muted; context.font = "10px " + FONT; context.textBaseline = "top"; context.textAlign = "right";
    context.fillText(counted(most, unit), width - 4, y + 1);
    context.textAlign = "left";
  }

  function row(row, y) {
    const { track, group, h } = row;
    context.fillStyle = group ? theme.band : theme.ground;
    context.fillRect(0, y, width, h);
    if (track) {
      if (shape(track) === "spans") {
        paint(track, packedColour(group ? theme.band : theme.ground));
        stripped.putImageData(image, 0, 0);
        context.imageSmoothingEnabled = false;
        context.drawImage(strip, 0, 0, image.width, 1, side, y + 2, width - side, h - 3);
        words(track, y + 1, h - 2);
        ticks(track, y, h);
      } else line(track, y, h);
    }
    context.fillStyle = group ? theme.band : theme.ground;
    context.fillRect(0, y, side, h);
    context.font = (group ? "600 " : "") + "12px " + FONT; context.textBaseline = "middle";
    context.fillStyle = group ? theme.ink : theme.muted;
    const name = group ? `${group.folded ? "▸" : "▾"} ${group.name}` : pinned.includes(track) && y < RULER + pins.height ? track.long : track.name;
    context.fillText(fitted(name, side - (group ? 12 : 34)), group ? 6 : 18, y + h / 2);
    if (track && !group && (hovered?.row === row || pinned.includes(track))) {
      context.fillStyle = pinned.includes(track) ? theme.ink : theme.muted;
      context.fillText(pinned.includes(track) ? "◆" : "◇", side - 15, y + h / 2);
    }
    context.fillStyle = theme.line;
    context.fillRect(0, y + h - 1, width, 1);
  }

  function ruler() {
    context.fillStyle = theme.ground; context.fillRect(0, 0, width, RULER);
    context.font = "11px " + FONT; context.textBaseline = "middle"; context.fillStyle = theme.muted;
    const rough = perPixel() * 110, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    // Beside a long way from the begin, a mark says only how far it is from the left one.
    const base = view.from > 1000 * step ? Math.floor(view.from / step) * step : 0;
    for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
      const x = xOf(time);
      context.fillStyle = theme.line; context.fillRect(x, RULER - 6, 1, 6);
      context.fillStyle = theme.muted;
      const text = base && time > base ? `+${lasting(time - base)}` : lasting(time);
      if (x + wideOf(text) + 4 < width) context.fillText(text, x + 3, RULER / 2 - 1);
    }
    context.fillStyle = theme.ground; context.fillRect(0, 0, side, RULER);
    context.fillStyle = theme.ink;
    context.fillText(fitted(`${lasting(view.to - view.from)} from ${lasting(view.from)}`, side - 10), 6, RULER / 2);
    context.fillStyle = theme.line; context.fillRect(0, RULER - 1, width, 1);
  }

  let planned = false;
  function redraw() {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => { planned = false; draw(); });
  }
  function draw() {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = theme.ground; context.fillRect(0, 0, width, height);
    const scrolled = stage.scrollTop, top = RULER + pins.height;
    for (const one of rows) {
      const y = one.y - scrolled + top;
      if (y + one.h > top && y < height) row(one, y);
    }
    if (pins.height) {
      context.fillStyle = theme.ink; context.fillRect(0, top - 2, width, 1);
      for (const one of pins) row(one, RULER + one.y);
    }
    ruler();
    if (area) {
      const [from, to] = [xOf(Math.min(...area)), xOf(Math.max(...area))].map((x) => Math.min(width, Math.max(side, x)));
      context.globalAlpha = 0.18; context.fillStyle = theme.mark; context.fillRect(from, 0, Math.max(1, to - from), height);
      context.globalAlpha = 1; context.fillRect(from, 0, 1, height); context.fillRect(to, 0, 1, height);
    }
    if (chosen) outline(chosen);
    if (hovered && hovered.x > side) { context.fillStyle = theme.muted; context.fillRect(hovered.x, RULER, 1, height); }
  }
  function outline({ track, index }) {
    for (const [list, shift, least] of [[rows, RULER + pins.height - stage.scrollTop, RULER + pins.height], [pins, RULER, RULER]]) {
      for (const one of list) {
        if (one.track !== track || one.y + shift < least) continue;
        const from = Math.max(side, xOf(track.begins[index])), to = Math.min(width, xOf(track.ends[index]));
        if (to < side || from > width) continue;
        context.strokeStyle = theme.ink; context.lineWidth = 2;
        context.strokeRect(from, one.y + shift + 2, Math.max(2, to - from), one.h - 4);
      }
    }
  }

  // ---- What is under the pointer -----------------------------------------------------------------------------

  let hovered = null, chosen = null, area = null;
  function rowAt(y) {
    const top = RULER + pins.height;
    if (y < RULER) return null;
    if (y < top) return pins.find((one) => y - RULER >= one.y && y - RULER < one.y + one.h) || null;
    const at = y - top + stage.scrollTop;
    return rows.find((one) => at >= one.y && at < one.y + one.h) || null;
  }
  // The span at a place; a neighbour of at most two pixels is as good, for such are hard to hit.
  function spanAt(track, x) {
    if (!track || shape(track) !== "spans") return -1;
    const time = timeAt(x), near = 2 * perPixel();
    const index = lastBefore(track.begins, time);
    if (index >= 0 && track.ends[index] >= time) return index;
    const before = index >= 0 ? time - track.ends[index] : Infinity;
    const after = index + 1 < track.begins.length ? track.begins[index + 1] - time : Infinity;
    if (Math.min(before, after) > near) return -1;
    return before <= after ? index : index + 1;
  }
  const told = (track, index) => {
    const [name, kind] = labels[track.labels[index]];
    const begin = track.begins[index], took = track.ends[index] - begin;
    const kinds = classes[kind].name === name ? [] : [classes[kind].name];
    return [name, ...kinds, `${lasting(took)}, at ${trim((begin / 1e6).toFixed(6))} ms`, track.long];
  };
  function pointAt(x, y) {
    const found = rowAt(y);
    hovered = { row: found, x, y };
    let lines = null;
    if (found?.track && x > side) {
      const { track } = found;
      if (shape(track) === "steps") {
        const index = lastBefore(track.begins, timeAt(x));
        if (index >= 0 && !Number.isNaN(track.values[index])) lines = [counted(track.values[index], track.unit), ...(track.mark === undefined ? [] : [`the line is at ${counted(track.mark, track.unit)}`]), track.long];
      } else {
        const index = spanAt(track, x);
        if (index >= 0) lines = told(track, index);
      }
    } else if (found?.track && x <= side) lines = [found.track.long];
    tip.hidden = !lines;
    if (lines) {
      tip.replaceChildren(...lines.map((text) => Object.assign(document.createElement("div"), { textContent: text })));
      const box = stage.getBoundingClientRect();
      tip.style.left = `${Math.max(4, Math.min(box.left + x + 14, innerWidth - tip.offsetWidth - 6))}px`;
      const below = box.top + y + 18;
      tip.style.top = `${below + tip.offsetHeight < innerHeight ? below : box.top + y - tip.offsetHeight - 8}px`;
    }
    redraw();
  }

  // ---- Sums of an area ---------------------------------------------------------------------------------------

  // By kind of track and label: time within the area, and how many spans touch it.
  function sums(from, to) {
    const kinds = new Map();
    for (const track of tracks) {
      if (shape(track) === "steps") continue;
      if (!kinds.has(track.kind)) kinds.set(track.kind, { tracks: 0, time: new Float64Array(labels.length), count: new Uint32Array(labels.length) });
      const sum = kinds.get(track.kind);
      sum.tracks++;
      const last = lastBefore(track.begins, to);
      for (let i = firstBehind(track.ends, from); i <= last; i++) {
        const label = track.labels[i];
        sum.time[label] += Math.min(to, track.ends[i]) - Math.max(from, track.begins[i]);
        sum.count[label]++;
      }
    }
    return kinds;
  }
  const KINDS = { cpu: "CPUs", thread: "Threads", request: "Requests", idle: "Idle states", irq: "Interrupts", softirq: "Softirqs" };
  function cell(text, tag = "td", number = false) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (number) made.className = "n";
    return made;
  }
  function table(title, lines, wide, of) {
    const made = document.createElement("table"), caption = document.createElement("caption");
    caption.textContent = title;
    const header = document.createElement("tr");
    header.append(cell("what", "th"), cell("time", "th", true), cell(of, "th", true), cell("count", "th", true));
    made.append(caption, header);
    for (const [name, time, count] of lines) {
      const line = document.createElement("tr");
      line.append(cell(name), cell(lasting(time), "td", true), cell(`${trim((100 * time / wide).toFixed(1))}%`, "td", true), cell(String(count), "td", true));
      made.append(line);
    }
    return made;
  }
  function sumUp() {
    const panel = $("sums");
    if (!area) { panel.hidden = true; resize(); return; }
    const from = Math.max(0, Math.min(...area)), to = Math.min(span, Math.max(...area)), wide = to - from;
    const parts = [];
    for (const [kind, sum] of sums(from, to)) {
      if (!KINDS[kind]) continue;
      const byClass = new Map(), byLabel = [];
      labels.forEach(([name, of], label) => {
        if (!sum.count[label]) return;
        const before = byClass.get(of) || [classes[of].name, 0, 0];
        byClass.set(of, [before[0], before[1] + sum.time[label], before[2] + sum.count[label]]);
        byLabel.push([name, sum.time[label], sum.count[label]]);
      });
      if (byLabel.length === 0) continue;
      const most = (list) => [...list].sort((a, b) => b[1] - a[1]).slice(0, 8);
      // The share of CPUs is of what all had; that of others, of the area.
      const all = kind === "cpu" || kind === "idle" ? wide * sum.tracks : wide;
      const of = kind === "cpu" || kind === "idle" ? "of all CPUs" : "of the area";
      parts.push(table(KINDS[kind], most(byClass.values()), all, of));
      if (kind === "cpu" || kind === "request") parts.push(table(kind === "cpu" ? "Busiest" : "By size", most(byLabel), all, of));
    }
    $("sums-title").textContent = `${lasting(wide)} from ${lasting(from)}`;
    $("sums-tables").replaceChildren(...parts);
    panel.hidden = false;
    resize();
  }

  // ---- Search ------------------------------------------------------------------------------------------------

  let matches = null, match = -1;
  const MOST = 200000;
  function search(text) {
    const wanted = text.trim().toLowerCase();
    matches = null; match = -1;
    for (const track of tracks) track.found = null;
    if (!wanted) { $("found").textContent = ""; redraw(); return; }
    const is = labels.map(([name]) => name.toLowerCase().includes(wanted));
    matches = [];
    for (const track of tracks) {
      if (shape(track) === "steps") continue;
      const found = [];
      for (let i = 0; i < track.labels.length && matches.length < MOST; i++) {
        if (is[track.labels[i]]) { found.push(i); matches.push([track, i]); }
      }
      if (found.length) track.found = found;
    }
    matches.sort(([a, i], [b, j]) => a.begins[i] - b.begins[j]);
    said();
    redraw();
  }
  function said() {
    const all = matches.length === MOST ? `the first ${MOST}` : String(matches.length);
    $("found").textContent = match < 0 ? `${all} found` : `${match + 1} of ${all}`;
  }
  function ticks(track, y, h) {
    if (!track.found) return;
    context.fillStyle = theme.mark;
    let last = -1;
    const from = view.from, to = view.to;
    for (let k = firstFound(track, from); k < track.found.length; k++) {
      const index = track.found[k];
      if (track.begins[index] > to) break;
      const x = Math.max(side, Math.floor(xOf(track.begins[index])));
      if (x === last) continue;
      context.fillRect(x, y + h - 4, Math.max(2, Math.min(width, xOf(track.ends[index])) - x), 3);
      last = x;
    }
  }
  function firstFound(track, time) {
    let low = 0, high = track.found.length;
    while (low < high) { const middle = (low + high) >> 1; if (track.ends[track.found[middle]] <= time) low = middle + 1; else high = middle; }
    return low;
  }
  function step(way) {
    if (!matches?.length) return;
    if (match < 0) {
      match = matches.findIndex(([track, index]) => track.begins[index] >= view.from);
      if (match < 0) match = 0;
    } else match = (match + way + matches.length) % matches.length;
    said();
    choose(...matches[match]);
    bring();
  }

  // ---- Choosing ----------------------------------------------------------------------------------------------

  function choose(track, index) {
    chosen = index < 0 ? null : { track, index };
    $("chosen").textContent = chosen ? told(track, index).join(" · ") : "";
    redraw();
  }
  // Brings what is chosen into sight.
  function bring() {
    if (!chosen) return;
    const { track, index } = chosen;
    const begin = track.begins[index], wide = view.to - view.from;
    if (begin < view.from || begin > view.to) show(begin - wide / 2, begin + wide / 2);
    if (track.group.folded && track !== track.group.tracks[0]) { track.group.folded = false; lay(); }
    const at = rows.find((one) => one.track === track);
    if (at && !pinned.includes(track)) {
      const room = height - RULER - pins.height;
      if (at.y < stage.scrollTop || at.y + at.h > stage.scrollTop + room) stage.scrollTop = at.y - room / 2;
    }
    redraw();
  }
  function fit() {
    if (area) show(Math.min(...area), Math.max(...area));
    else if (chosen) {
      const begin = chosen.track.begins[chosen.index], took = Math.max(LEAST, chosen.track.ends[chosen.index] - begin);
      show(begin - took / 2, begin + took * 1.5);
    }
  }
  function pin(track) {
    const at = pinned.indexOf(track);
    if (at < 0) pinned.push(track); else pinned.splice(at, 1);
    lay();
    redraw();
  }

  // ---- Pointer, touch and keys -------------------------------------------------------------------------------

  const pointers = new Map();
  let drag = null;
  const place = (event) => {
    const box = stage.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    const [x, y] = place(event);
    if (event.button !== 0) return;
    stage.focus({ preventScroll: true });
    pointers.set(event.pointerId, x);
    // A pointer that is none of the system's cannot be captured.
    try { canvas.setPointerCapture(event.pointerId); } catch { /* it is followed while it is over the canvas */ }
    const selects = event.shiftKey || (y < RULER && x > side);
    if (pointers.size === 2) drag = { pinch: [...pointers.values()], view: { ...view } };
    else drag = { x, y, from: view.from, wide: view.to - view.from, selects, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (pointers.has(event.pointerId)) pointers.set(event.pointerId, x);
    if (drag?.pinch && pointers.size === 2) {
      const now = [...pointers.values()], wide = width - side;
      const apart = (list) => Math.max(8, Math.abs(list[0] - list[1]));
      const middle = (list) => (list[0] + list[1]) / 2 - side;
      const old = drag.view.to - drag.view.from, new_ = old * apart(drag.pinch) / apart(now);
      const held = drag.view.from + old * middle(drag.pinch) / wide;
      const from = held - new_ * middle(now) / wide;
      show(from, from + new_);
      return;
    }
    if (!drag || drag.pinch) { pointAt(x, y); return; }
    if (Math.abs(x - drag.x) > 3) drag.moved = true;
    if (!drag.moved) return;
    tip.hidden = true;
    if (drag.selects) { area = [timeAt(Math.max(side, drag.x)), timeAt(Math.max(side, Math.min(width, x)))]; redraw(); }
    else { const from = drag.from - (x - drag.x) * drag.wide / (width - side); show(from, from + drag.wide); }
  });
  function release(event) {
    if (!pointers.delete(event.pointerId) || !drag) return;
    const was = drag;
    if (pointers.size === 0) drag = null;
    if (was.pinch) return;
    if (was.selects) {
      if (!was.moved) area = null;
      sumUp();
      redraw();
    } else if (!was.moved && event.type === "pointerup") click(...place(event));
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; hovered = null; redraw(); });
  function click(x, y) {
    const found = rowAt(y);
    if (!found) return;
    if (x <= side) {
      if (found.group) { found.group.folded = !found.group.folded; lay(); redraw(); }
      else pin(found.track);
      return;
    }
    choose(found.track, spanAt(found.track, x));
    pointAt(x, y);
  }
  canvas.addEventListener("dblclick", (event) => { if (place(event)[0] > side) fit(); });
  canvas.addEventListener("wheel", (event) => {
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(1.0018 ** event.deltaY, timeAt(Math.max(side, place(event)[0])));
    } else if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
      event.preventDefault();
      show(view.from + sideways * perPixel(), view.to + sideways * perPixel());
    }
  }, { passive: false });
  stage.addEventListener("scroll", () => { tip.hidden = true; redraw(); }, { passive: true });

  // While a key is down the view moves, as fast whatever the screen's rate.
  const held = new Set();
  const MOVES = { w: [0.12, 0], s: [8, 0], a: [1, -1.2], d: [1, 1.2], arrowleft: [1, -1.2], arrowright: [1, 1.2] };
  let ticked = 0;
  function tick(now) {
    const seconds = Math.min(0.1, Math.max(0.001, (now - ticked) / 1000));
    ticked = now;
    const wide = view.to - view.from;
    const around = hovered && hovered.x > side ? timeAt(hovered.x) : (view.from + view.to) / 2;
    for (const key of held) {
      const [factor, shift] = MOVES[key];
      if (factor !== 1) zoom(factor ** seconds, around);
      if (shift) show(view.from + shift * wide * seconds, view.to + shift * wide * seconds);
    }
    if (held.size) requestAnimationFrame(tick);
  }
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    if (event.target === $("search")) {
      if (key === "enter") step(event.shiftKey ? -1 : 1);
      if (key === "escape") { $("search").value = ""; search(""); stage.focus(); }
      return;
    }
    if (MOVES[key]) {
      event.preventDefault();
      const is_first = held.size === 0, now = performance.now();
      held.add(key);
      // A key that is pressed for a moment moves it a little, at once.
      if (is_first) { ticked = now - 50; tick(now); }
      return;
    }
    const actions = {
      "/": () => $("search").focus(), f: fit, 0: () => show(0, span), n: () => step(1), "?": () => $("keys").toggleAttribute("hidden"),
      p: () => hovered?.row?.track && pin(hovered.row.track),
      ",": () => beside(-1), ".": () => beside(1),
      escape: () => { area = null; choose(null, -1); sumUp(); $("keys").hidden = true; },
    };
    if (!actions[key]) return;
    event.preventDefault();
    actions[key]();
  });
  function beside(way) {
    if (!chosen) return;
    const index = chosen.index + way;
    if (index >= 0 && index < chosen.track.begins.length) { choose(chosen.track, index); bring(); }
  }
  addEventListener("keyup", (event) => held.delete(event.key.toLowerCase()));
  addEventListener("blur", () => held.clear());
  $("search").addEventListener("input", () => search($("search").value));
  const middle = () => (view.from + view.to) / 2;
  for (const [id, act] of [["next", () => step(1)], ["in", () => zoom(0.5, middle())], ["out", () => zoom(2, middle())],
    ["whole", () => show(0, span)], ["help", () => $("keys").toggleAttribute("hidden")],
    ["sums-close", () => { area = null; sumUp(); redraw(); }]]) $(id).addEventListener("click", act);

  // ---- Begin -------------------------------------------------------------------------------------------------

  function resize() { measure(); lay(); draw(); }
  function named() {
    const [from, to] = location.hash.slice(1).split("-").map(Number);
    if (to > from) show(from, to);
  }
  addEventListener("hashchange", named);
  new ResizeObserver(resize).observe(stage);
  dark.addEventListener("change", () => { dye(); redraw(); });
  measure();
  lay();
  say("");
  named();
  draw();
  // What a test holds on to, and whoever opens the browser's console.
  window.timeline = { head, tracks, view, show, sums, search, step, pin, pinned, draw, rowAt, xOf, redraw };
  document.documentElement.dataset.ready = "";
})();
