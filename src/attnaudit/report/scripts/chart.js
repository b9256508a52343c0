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
