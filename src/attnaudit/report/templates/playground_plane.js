// What a playground draws: the bars of the output, and its plane as SVG, across how much the output changes (TVD), up how different the attention is (JSD).
const playgroundPlane = (() => {
  const LEFT = 46, RIGHT = 446, TOP = 26, BOTTOM = 278, LN2 = Math.log(2);
  const across = (tvd) => LEFT + (RIGHT - LEFT) * Math.sqrt(Math.min(Math.max(tvd, 0), 1)); // most of what matters is small
  const up = (jsd) => BOTTOM - ((BOTTOM - TOP) * jsd) / LN2;

  function svg(tag, attributes, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function colours(of) {
    return Object.fromEntries(["ink", "paper", "accent", "attention", "good"].map((name) => [name, pageColour(name, of)]));
  }

  function line(points, attributes) {
    return svg("path", { d: `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`, fill: "none", ...attributes });
  }

  function axes(ink) {
    const words = { fill: ink, "font-size": 12 };
    return [
      ...[0, 0.2, 0.4, 0.6].flatMap((value) => [
        line([[LEFT, up(value)], [RIGHT, up(value)]], { stroke: ink, opacity: value ? 0.14 : 0.5 }),
        svg("text", { ...words, x: LEFT - 7, y: up(value) + 4, "text-anchor": "end" }, String(value)),
      ]),
      line([[LEFT, up(LN2)], [RIGHT, up(LN2)]], { stroke: ink, opacity: 0.4, "stroke-dasharray": "2 3" }),
      svg("text", { ...words, x: RIGHT, y: up(LN2) - 5, "text-anchor": "end", "font-style": "italic" }, "ln 2"),
      ...[0, 0.01, 0.05, 0.1, 0.25, 0.5, 1].flatMap((value) => [
        line([[across(value), BOTTOM], [across(value), BOTTOM + 4]], { stroke: ink, opacity: 0.5 }),
        svg("text", { ...words, x: across(value), y: BOTTOM + 18, "text-anchor": "middle" }, String(value)),
      ]),
      svg("text", { ...words, x: (LEFT + RIGHT) / 2, y: BOTTOM + 38, "text-anchor": "middle" }, "change of the output (TVD, square-root scale)"),
      svg("text", { ...words, x: 4, y: 14 }, "change of the attention (JSD)"),
    ];
  }

  function known(curve, colours) {
    if (!curve) return [];
    const found = curve.map(([tvd, jsd]) => [across(tvd), up(jsd)]);
    const bound = curve.map(([tvd, , jsd]) => [across(tvd), up(jsd)]);
    const loose = curve.some(([, jsd, upper]) => upper - jsd > 1e-3);
    const band = svg("path", {
      d: `M${[...found, ...bound.toReversed()].map((point) => point.map((v) => v.toFixed(1)).join(" ")).join("L")}Z`, fill: colours.accent, opacity: 0.14,
    });
    const dots = curve.length > 12 ? [] : found.map(([cx, cy]) => svg("circle", { cx, cy, r: 2.5, fill: colours.accent }));
    return [...(loose ? [band] : []), line(found, { stroke: colours.accent, "stroke-width": 2 }), ...dots];
  }

  // `path` has (tvd, jsd) of the reader's steps, the last one where the attention is now; `best` is one such pair or null.
  function draw({ curve, path, best, epsilon, colours, joined = true }) {
    const points = path.map(([tvd, jsd]) => [across(tvd), up(jsd)]);
    const at = across(epsilon);
    const low = (curve || path).some(([tvd, jsd]) => tvd >= epsilon / 2 && tvd <= 0.25 && jsd < 0.15); // what would cross the word below
    const parts = [
      ...axes(colours.ink),
      svg("rect", { x: LEFT, y: TOP, width: at - LEFT, height: BOTTOM - TOP, fill: colours.good, opacity: 0.09 }),
      line([[at, TOP], [at, BOTTOM]], { stroke: colours.good, "stroke-dasharray": "5 3", opacity: 0.8 }),
      svg("text", { x: at + 5, y: low ? TOP + 16 : BOTTOM - 7, fill: colours.good, "font-size": 12 }, `ε = ${epsilon}`),
      ...known(curve, colours),
    ];
    if (joined && points.length > 1) parts.push(line(points, { stroke: colours.attention, "stroke-width": 1.5, opacity: 0.6 }));
    for (const [cx, cy] of points.slice(0, -1)) parts.push(svg("circle", { cx, cy, r: 2.5, fill: colours.attention, opacity: 0.6 }));
    if (best) {
      const [x, y] = [across(best[0]), up(best[1])];
      parts.push(svg("path", { d: `M${x - 6} ${y}H${x + 6}M${x} ${y - 6}V${y + 6}`, stroke: colours.ink, "stroke-width": 2 }));
    }
    if (points.length) {
      const [cx, cy] = points.at(-1);
      parts.push(svg("circle", { cx, cy, r: 5, fill: colours.attention, stroke: colours.paper, "stroke-width": 2 }));
    }
    return parts;
  }

  // The six classes with most probability, now or under the model's own attention.
  function bars(now, own, names) {
    const order = now.map((_, c) => c).sort((a, b) => Math.max(now[b], own[b]) - Math.max(now[a], own[a])).slice(0, 6);
    return order.map((c) => {
      const [row, name, bar, value] = ["p", "span", "i", "b"].map((tag) => document.createElement(tag));
      row.className = "play-row";
      name.textContent = names[c];
      bar.style.setProperty("--share", now[c]);
      bar.style.setProperty("--own", own[c]);
      value.textContent = now[c].toFixed(3);
      row.append(name, bar, value);
      return row;
    });
  }

  return { bars, colours, draw, svg };
})();
