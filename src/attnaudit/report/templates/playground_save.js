// The playground's link and files: a picture of the text and the plane (SVG, PNG), and the weights (CSV).
(() => {
  const bar = document.querySelector(".play-save");
  if (!playground || !bar) return;
  const said = document.getElementById("play-shared");
  const { svg } = playgroundPlane;
  const WIDTH = 820, LEFT = 24, LINE = 30, SIZE = 16;

  function words() {
    const { entry } = playground.state;
    return [...entry.tokens, ...(entry.rest ? [`… ${entry.rest} other tokens`] : [])];
  }

  // The tokens in lines, each shaded by its weight.
  function text(weights, colours, top) {
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `${SIZE}px serif`;
    const highest = Math.max(...weights, 1e-12);
    let [x, y] = [LEFT, top];
    const parts = words().flatMap((word, t) => {
      const width = Math.min(pen.measureText(word).width, WIDTH - 2 * LEFT - 10) + 8;
      if (x + width > WIDTH - LEFT) [x, y] = [LEFT, y + LINE];
      const shade = svg("rect", { x, y: y - SIZE - 2, width, height: SIZE + 9, rx: 3, fill: colours.attention, opacity: (0.8 * weights[t]) / highest });
      const letters = svg("text", { x: x + 4, y, fill: colours.ink, "font-family": "serif", "font-size": SIZE }, word);
      x += width + 3;
      return [shade, letters];
    });
    return { parts, bottom: y + LINE };
  }

  function picture() {
    const { state, now, measured, planeParts, colours: current } = playground;
    const colours = current();
    const { tvd, jsd, same } = measured(now());
    const facts = `TVD ${tvd.toFixed(3)}, JSD ${jsd === null ? "–" : jsd.toFixed(3)}, ${same ? "the same decision" : "flipped"}`;
    const ink = { fill: colours.ink, "font-family": "sans-serif" };
    const { parts, bottom } = text(now(), colours, 78);
    const height = bottom + 350;
    const plane = svg("g", { transform: `translate(${LEFT} ${bottom})`, "font-family": "sans-serif" });
    plane.append(...planeParts());
    const made = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}` });
    made.append(
      svg("rect", { width: WIDTH, height, fill: colours.paper }),
      svg("text", { ...ink, x: LEFT, y: 28, "font-size": 15, "font-weight": 600 }, `${state.entry.title}: predicted ${state.entry.predicted}`),
      svg("text", { ...ink, x: LEFT, y: 48, "font-size": 13 }, facts),
      ...parts, plane,
    );
    return { text: new XMLSerializer().serializeToString(made), height };
  }

  function save(blob, ending) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `playground-${playground.state.entry.id}.${ending}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    said.textContent = `Saved as ${link.download}.`;
  }

  function savePng() {
    const { text: drawn, height } = picture();
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [2 * WIDTH, 2 * height];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(blob, "png"), "image/png");
    };
    image.onerror = () => { said.textContent = "The picture could not be drawn; save it as SVG."; };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawn)}`;
  }

  function csv() {
    const { state, now } = playground;
    const quoted = (value) => (typeof value === "string" ? `"${value.replaceAll('"', '""')}"` : value === undefined ? "" : String(value));
    const rows = words().map((word, t) => [word, state.one.own[t], now()[t], state.entry.least?.[t], state.entry.most?.[t]]);
    return [["token", "own", "weight", "least possible", "most possible"], ...rows].map((row) => row.map(quoted).join(",")).join("\r\n");
  }

  async function link() {
    const { state, now } = playground;
    const hash = `#play-${state.entry.id}=${playgroundModel.toText(now())}`;
    window.history.replaceState(null, "", hash);
    try {
      await navigator.clipboard.writeText(window.location.href);
      said.textContent = "Link copied.";
    } catch {
      said.textContent = "The address of this page now names this attention.";
    }
  }

  const ACTIONS = {
    link, png: savePng,
    svg: () => save(new Blob([picture().text], { type: "image/svg+xml" }), "svg"),
    csv: () => save(new Blob([csv()], { type: "text/csv;charset=utf-8" }), "csv"),
  };
  // a page within a page has no address, and that of a typed sentence does not hold the sentence
  bar.querySelector('[name="link"]').hidden = !/^(file|http)/.test(window.location.protocol) || document.getElementById("live-form") !== null;
  bar.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) ACTIONS[button.name]();
  });
})();
