// Pictures and tables that are shown, saved as SVG, PNG and CSV.
const save = (() => {
  const SIZE = 16, LINE = 28, WIDTH = 760;
  const MOST_PIXELS = 16384; // a side of a canvas: larger ones stay empty in some browsers

  function download(blob, name) {
    const link = element("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function csv(rows) {
    const quoted = (value) => (typeof value === "string" ? `"${value.replaceAll('"', '""')}"`
      : String(value ?? ""));
    return rows.map((row) => row.map(quoted).join(",")).join("\r\n");
  }

  // A copy with the colours of the page: other programs know neither its classes nor its variables.
  function copied(drawing) {
    const node = drawing.cloneNode(true), copies = [node, ...node.querySelectorAll("*")];
    [drawing, ...drawing.querySelectorAll("*")].forEach((one, k) => {
      const { fill, stroke } = getComputedStyle(one);
      copies[k].setAttribute("fill", fill);
      copies[k].setAttribute("stroke", stroke);
    });
    const { width, height } = drawing.viewBox.baseVal;
    node.setAttribute("width", width);
    node.setAttribute("height", height);
    node.setAttribute("font-family", getComputedStyle(drawing).fontFamily);
    return { node, size: [width, height] };
  }

  // A heading, and below it tokens in lines, each shaded as on the page.
  function text(heading, words) {
    const ink = { fill: getComputedStyle(document.body).color };
    const pen = element("canvas").getContext("2d");
    pen.font = `${SIZE}px serif`;
    const node = svg("g", { "font-family": "serif", "font-size": SIZE });
    node.append(svg("text", { ...ink, y: 12, "font-family": "sans-serif", "font-size": 13 },
      heading));
    let [x, y] = [0, 40];
    for (const word of words) {
      const style = getComputedStyle(word);
      const width = Math.min(pen.measureText(word.textContent).width, WIDTH - 8) + 8;
      if (x > 0 && x + width > WIDTH) [x, y] = [0, y + LINE];
      const opacity = 0.8 * style.getPropertyValue("--w");
      const box = { x, y: y - SIZE - 1, width, height: SIZE + 8, rx: 3, opacity };
      node.append(svg("rect", { ...box, fill: style.getPropertyValue("--hue") }));
      node.append(svg("text", { ...ink, x: x + 4, y }, word.textContent));
      x += width + 3;
    }
    return { node, size: [WIDTH, y + 12] };
  }

  // Drawings below each other on the colour of the page.
  function sheet(drawings) {
    const { color, backgroundColor } = getComputedStyle(document.body);
    const width = Math.max(...drawings.map(({ size }) => size[0])) + 32;
    let height = 16;
    const parts = drawings.map(({ node, size }) => {
      const part = svg("g", { transform: `translate(16 ${height})`, color }, node);
      height += size[1] + 16;
      return part;
    });
    const paper = svg("rect", { width, height, fill: backgroundColor });
    const whole = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, paper, ...parts);
    return { source: new XMLSerializer().serializeToString(whole), width, height };
  }

  function png({ source, width, height }, name) {
    const image = new Image();
    image.onload = () => {
      const canvas = element("canvas"), scale = Math.min(2, MOST_PIXELS / Math.max(width, height));
      [canvas.width, canvas.height] = [scale * width, scale * height];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => download(blob, name), "image/png");
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source)}`;
  }

  // A closed list of buttons: one stop of the tab key until it is opened. `name()` names the files.
  function offer(name, drawings, rows) {
    const kinds = {
      ...(drawings && { SVG: (file) => download(new Blob([sheet(drawings()).source]), file) }),
      ...(drawings && { PNG: (file) => png(sheet(drawings()), file) }),
      ...(rows && { CSV: (file) => download(new Blob([csv(rows())]), file) }),
    };
    const buttons = Object.entries(kinds).flatMap(([kind, act]) => {
      const made = button(kind, () => act(`${name()}.${kind.toLowerCase()}`));
      made.setAttribute("aria-label", `Save ${name()} as ${kind}`);
      return [made, " "];
    });
    const head = element("summary", "", "Save");
    head.setAttribute("aria-label", `Save ${name()}`);
    return element("details", "save", head, ...buttons);
  }

  for (const figure of document.querySelectorAll("figure[id^='figure-']")) {
    const charts = figure.querySelectorAll(".chart svg"), table = figure.querySelector("table");
    const cells = (row) => Array.from(row.cells, (cell) => cell.textContent.trim());
    const rows = () => Array.from(figure.querySelectorAll("table tr"), cells);
    const drawings = () => Array.from(charts, copied);
    if (!charts.length) continue;
    figure.querySelector("figcaption").append(offer(() => figure.id, drawings, table && rows));
  }

  for (const article of document.querySelectorAll("#heatmaps .heatmap")) {
    const name = article.querySelector("h4 a").hash.slice(1).replace("instance", "heatmap");
    const strips = () => {
      everyBlock(article);
      return Array.from(article.querySelectorAll(".strips:not(.unshown) > .strip"));
    };
    const heading = (one) => one.querySelector(".strip-head").innerText.replace(/\s+/g, " ");
    const drawings = () => strips().filter((one) => !one.matches(".wide-strip"))
      .map((one) => text(heading(one), one.querySelectorAll(".token, .gap")));
    const rows = () => strips().flatMap((one) => {
      const caption = one.querySelector("b").textContent;
      const tokens = Array.from(one.querySelectorAll(".token"));
      return tokens.map((token) => [caption, token.textContent, token.title]);
    });
    article.append(offer(() => name, drawings, () => [["weights", "token", "weight"], ...rows()]));
  }
  return { copied, offer, text };
})();
