// The charts that a page draws itself. Colours are classes of the style sheet: they follow the scheme.

// Where a value lies between two places; `bend` makes a scale that is not linear.
const scaled = ([low, high], [from, to], bend = (share) => share) => (value) =>
  from + (to - from) * bend(Math.min(Math.max((value - low) / (high - low || 1), 0), 1));

const line = (points, attributes) => svg("path", {
  d: `M${points.map((xy) => xy.map((v) => v.toFixed(1)).join(" ")).join("L")}`, ...attributes,
});

// The axes of a chart, each with ends, ticks and a title, and where values lie within it.
function axes(width, height, x, y) {
  const [left, right, top, bottom] = [46, width - 14, 26, height - 52];
  const across = scaled(x.ends, [left, right], x.bend), up = scaled(y.ends, [bottom, top]);
  const word = (text, x, y, anchor) => svg("text", { x, y, "text-anchor": anchor }, text);
  const parts = [
    ...y.ticks.flatMap((value) => [word(figure(value), left - 7, up(value) + 4, "end"),
      line([[left, up(value)], [right, up(value)]], { class: value ? "grid" : "axis" })]),
    ...x.ticks.flatMap((value) => [word(figure(value), across(value), bottom + 18, "middle"),
      line([[across(value), bottom], [across(value), bottom + 4]], { class: "axis" })]),
    word(x.title, (left + right) / 2, bottom + 38, "middle"), word(y.title, 4, 14, "start"),
  ];
  return { parts, across, up, left, right, top, bottom };
}

// Bars on a base line, one of `most` as high as the chart.
function bars(counts, most, width, height) {
  const step = width / counts.length;
  return Array.from(counts, (count, k) => {
    const tall = Math.max((count / most) * (height - 2), 1).toFixed(1);
    const [x, wide] = [k * step + 0.4, step - 0.8].map((place) => place.toFixed(1));
    return count ? `M${x} ${height}v-${tall}h${wide}v${tall}z` : "";
  }).join("");
}

// What is computed from an array of values, once for each.
function once(compute) {
  const known = new WeakMap();
  return (values) => {
    if (!known.has(values)) known.set(values, compute(values));
    return known.get(values);
  };
}

// The smallest and the largest of values; NaN is undefined.
const endsOf = once((values) => {
  let low = Infinity, high = -Infinity;
  for (let row = 0; row < values.length; row += 1) {
    if (values[row] < low) low = values[row];
    if (values[row] > high) high = values[row];
  }
  return [low, high];
});

// Values are stored in 65,535 steps between their ends: so far apart they are not told from equal.
function stepOf(values) {
  const [low, high] = endsOf(values);
  return high > low ? (high - low) / 60000 : 0;
}

// Decimals of a column: none if all values are whole, to the steps in which they are stored.
const decimalsOf = once((values) => {
  const step = stepOf(values);
  return values.every((value) => Number.isNaN(value) || Math.abs(value - Math.round(value)) <= step) ? 0 : 3;
});

// Which of `count` equal intervals between its ends each value is in; NO_BIN if it is undefined.
const NO_BIN = 255;
function binned(values, count) {
  const [low, high] = endsOf(values), scale = high > low ? count / (high - low) : 0;
  const bins = new Uint8Array(values.length);
  for (let row = 0; row < bins.length; row += 1) {
    const bin = Math.min((values[row] - low) * scale, count - 1);
    bins[row] = Number.isNaN(bin) ? NO_BIN : bin;
  }
  return bins;
}

// The number of rows in each bin, of those whose bits in `failed` are none of `others`.
function counted(bins, failed, others) {
  const counts = new Uint32Array(NO_BIN + 1);
  for (let row = 0; row < bins.length; row += 1) if ((failed[row] & others) === 0) counts[bins[row]] += 1;
  return counts;
}

// A closed table behind a chart, drawn by `table()` while it is open.
function numbersBehind(table) {
  const box = element("details", "behind", element("summary", "", "Numbers"), "");
  const draw = () => box.open && box.lastChild.replaceWith(table());
  on(box, "toggle", draw);
  return { box, draw };
}

// Calls `done` with both ends of a drag, as shares of the target's sides, and `moving` once a frame.
function dragged(target, done, moving) {
  let first = null, last = null, frame = 0;
  const place = ({ clientX, clientY }) => {
    const box = target.getBoundingClientRect();
    return { x: (clientX - box.left) / box.width, y: (clientY - box.top) / box.height };
  };
  const end = (act) => (event) => {
    frame = cancelAnimationFrame(frame);
    if (first) act?.(first, place(event));
    first = null;
  };
  on(target, "pointerdown", (event) => {
    first = place(event);
    target.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  on(target, "pointermove", (event) => {
    last = place(event);
    if (first && moving) frame ||= requestAnimationFrame(() => {
      frame = 0;
      moving(first, last);
    });
  });
  on(target, "pointerup", end(done));
  on(target, "pointercancel", end(null));
}

// The range between two shares of the way from `low` to `high`.
const between = ([low, high], ...shares) => shares.map((share) => Math.min(Math.max(share, 0), 1))
  .sort((one, other) => one - other).map((share) => Number((low + share * (high - low)).toPrecision(4)));

const BARS = 40, INTERVALS = 10; // of a histogram, and of the table behind it

// A histogram of rows: grey all, blue those that fit. `change` is called with a range, or null.
function histogram(title, values, change) {
  const [WIDE, HIGH] = [220, 76], ends = endsOf(values), [low, high] = ends, isKnown = low <= high;
  const count = high > low ? BARS : 1, bins = binned(values, count), total = counted(bins, bins, 0);
  const show = (value) => figure(value, high - low < 0.05 ? 4 : 2);
  const layers = ["of-all", "of-fit"].map((name) => svg("path", { class: name }));
  const brush = svg("rect", { class: "brush", y: 0, height: HIGH });
  const ticks = [["start", 0, low], ["middle", WIDE / 2, (low + high) / 2], ["end", WIDE, high]];
  const words = ticks.slice(...(high > low ? [] : [1, isKnown ? 2 : 1])).map(([anchor, x, value]) => (
    svg("text", { x, y: HIGH + 13, "text-anchor": anchor }, show(value))));
  const frame = { viewBox: `0 0 ${WIDE} ${HIGH + 16}`, class: "brushed", "aria-hidden": "true" };
  const chart = svg("svg", frame, ...layers, brush, line([[0, HIGH], [WIDE, HIGH]], { class: "axis" }), ...words);
  const fields = ["from", "to"].map((name, k) => Object.assign(element("input"), {
    type: "number", name, step: "any", placeholder: isKnown ? show(ends[k]) : "",
  }));
  const lacking = total[NO_BIN] ? `${thousands(total[NO_BIN])} undefined` : "";
  const numbers = numbersBehind(table), legend = element("legend", "", element("span", "chart-title", title));
  const typing = element("div", "range-fields", ...fields.map((field) => labelled(field.name, field)),
    element("span", "muted", lacking));
  let fitting = total;

  // Both as shares of their own rows, so that few rows that fit are visible among many.
  function draw() {
    const shares = [total, fitting].map((rows) => {
      const known = Array.from(rows.subarray(0, count)), all = sum(known) || 1;
      return known.map((number) => number / all);
    });
    const most = Math.max(...shares.flat()) || 1;
    layers.forEach((layer, k) => layer.setAttribute("d", bars(shares[k], most, WIDE, HIGH)));
    numbers.draw();
  }

  function table() {
    const parts = Math.min(count, INTERVALS), each = count / parts;
    const end = (k) => show(low + ((high - low) * k) / parts);
    const row = (name, number) => [name, ...[total, fitting].map(number).map(thousands)];
    const lines = times(isKnown ? parts : 0, (k) => row(parts === 1 ? show(low) : `${end(k)} to ${end(k + 1)}`,
      (rows) => sum(rows.subarray(k * each, (k + 1) * each))));
    if (total[NO_BIN]) lines.push(row("undefined", (rows) => rows[NO_BIN]));
    return tableOf(`${title}: number of rows by value`, ["value", "all rows", "rows that fit"], lines);
  }

  const brushed = (a, b) => change(Math.abs(b.x - a.x) < 0.01 ? null : between(ends, a.x, b.x));
  dragged(chart, brushed, brushed);
  on(typing, "change", () => {
    const range = fields.map(({ value }, k) => (value === "" ? [-Infinity, Infinity][k] : Number(value)));
    change(range.some(Number.isFinite) ? range : null);
  });
  draw();
  return {
    box: element("fieldset", "chart-box", legend, chart, typing, numbers.box), legend,
    // `failed` has bits of the filters that a row does not pass; `others`, those of other charts.
    update(failed, others, range) {
      fitting = counted(bins, failed, others);
      draw();
      const [start, end] = range && isKnown ? range.map(scaled(ends, [0, WIDE])) : [0, 0];
      brush.setAttribute("x", start);
      brush.setAttribute("width", end - start);
      fields.forEach((field, k) => { field.value = Number.isFinite(range?.[k]) ? range[k] : ""; });
    },
  };
}

// A point for each row by two measures, grey all, blue those that fit. `change` is called with the ranges of
// a drag, `open` with the row of a click.
function plane(change, open) {
  const [WIDE, HIGH] = [460, 330], SIDE = 3, NEAR = 8; // of a point, and of a click on it
  const MOST = 16, OPACITY = 0.45; // of points over each other
  const canvas = element("canvas"), chart = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img" });
  const numbers = numbersBehind(() => quartilesOf(shown));
  let shown = null;

  // One picture of all points: 25,000 rectangles would take most of the time of a brush.
  function drawPoints() {
    const { x, y, across, up, failed, others } = shown, ratio = window.devicePixelRatio || 1;
    const [wide, high, side] = [WIDE, HIGH, SIDE].map((size) => Math.round(size * ratio));
    Object.assign(canvas, { width: wide, height: high });
    const pen = canvas.getContext("2d"), image = pen.createImageData(wide, high);
    const [grey, blue] = times(2, () => new Uint8Array(wide * high));
    const place = (at) => Math.round(at * ratio - side / 2);
    for (let row = 0; row < x.length; row += 1) {
      if (Number.isNaN(x[row] + y[row])) continue;
      const layer = (failed[row] & others) === 0 ? blue : grey;
      const first = place(up(y[row])) * wide + place(across(x[row]));
      for (let start = first; start < first + side * wide; start += wide) {
        for (let k = start; k < start + side; k += 1) if (layer[k] < MOST) layer[k] += 1;
      }
    }
    const pixels = new Uint32Array(image.data.buffer), [greys, blues] = ["grey-point", "blue-point"].map(inkOf);
    for (let k = 0; k < pixels.length; k += 1) pixels[k] = blue[k] ? blues[blue[k]] : greys[grey[k]];
    pen.putImageData(image, 0, 0);
  }

  // A class's colour by the number of points over each other: a picture knows no variables.
  function inkOf(name) {
    const probe = chart.appendChild(svg("path", { class: name }));
    const rgb = getComputedStyle(probe).fill.match(/[\d.]+/g).slice(0, 3).map(Number);
    probe.remove();
    const alphas = times(MOST + 1, (k) => 255 * (1 - (1 - OPACITY) ** k));
    return new Uint32Array(new Uint8ClampedArray(alphas.flatMap((a) => [...rgb, a])).buffer);
  }

  function draw() {
    const { left, right, top, bottom, across, up, parts, ranges: [xs, ys] } = shown;
    const box = (name, x1, y1, x2, y2) => svg("rect", { class: name, x: x1, y: y1, width: x2 - x1, height: y2 - y1 });
    const [x1, x2] = xs?.map(across) ?? [left, right], [y2, y1] = ys?.map(up) ?? [bottom, top];
    chart.replaceChildren(box("frame", left, top, right, bottom), ...parts,
      ...(xs || ys ? [box("chosen", x1, y1, x2, y2)] : []));
    drawPoints();
    numbers.draw();
  }

  dragged(chart, (a, b) => {
    if (Math.abs(b.x - a.x) < 0.01 && Math.abs(b.y - a.y) < 0.01) return nearest(a);
    const { left, right, top, bottom, ends } = shown;
    const [xs, ys] = [[a.x, b.x].map((x) => (x * WIDE - left) / (right - left)),
      [a.y, b.y].map((y) => (bottom - y * HIGH) / (bottom - top))];
    return change(between(ends[0], ...xs), between(ends[1], ...ys));
  });

  function nearest(at) {
    const { x, y, across, up, failed, others } = shown;
    let best = null, least = NEAR ** 2;
    for (let row = 0; row < x.length; row += 1) {
      const far = (across(x[row]) - at.x * WIDE) ** 2 + (up(y[row]) - at.y * HIGH) ** 2;
      if (far < least && (failed[row] & others) === 0) [best, least] = [row, far];
    }
    return best === null ? change(null, null) : open(best);
  }

  return {
    box: element("div", "plane", canvas, chart), numbers: numbers.box,
    recolour: () => shown && drawPoints(),
    // `x` and `y` are {values, label, range}.
    update(x, y, failed, others) {
      const ends = [x, y].map(({ values }) => endsOf(values))
        .map(([low, high]) => (low <= high ? [low, high === low ? low + 1 : high] : [0, 1]));
      const [across, up] = [x, y].map(({ label }, k) => ({ ends: ends[k], ticks: ends[k], title: label }));
      shown = {
        x: x.values, y: y.values, labels: [x.label, y.label], ranges: [x.range, y.range], ends, failed, others,
        ...axes(WIDE, HIGH, across, up),
      };
      chart.ariaLabel = `${y.label} against ${x.label}, a point for each row; numbers and the list follow`;
      draw();
    },
  };
}

// Quartiles of y by intervals of x, of the rows that fit.
function quartilesOf({ x, y, labels, failed, others }) {
  const bin = binned(x, INTERVALS), [low, high] = endsOf(x), step = (high - low) / INTERVALS;
  const rows = times(INTERVALS, (k) => {
    const fits = (value, row) => bin[row] === k && !Number.isNaN(value) && (failed[row] & others) === 0;
    const sorted = y.filter(fits).sort(), at = (share) => share * (sorted.length - 1);
    const mean = (share) => (sorted[Math.floor(at(share))] + sorted[Math.ceil(at(share))]) / 2;
    return [[k, k + 1].map((end) => fixed(low + end * step)).join(" to "), thousands(sorted.length),
      ...[0.25, 0.5, 0.75].map((share) => fixed(mean(share)))];
  });
  const heads = [labels[0], "rows", `${labels[1]}: lower quartile`, "median", "upper quartile"];
  return tableOf("The second measure by intervals of the first, of the rows that fit", heads, rows);
}
