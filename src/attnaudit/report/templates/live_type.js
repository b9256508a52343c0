// Send the sentence to the model, and let the playground have what it says.
(() => {
  const form = document.getElementById("live-form");
  const said = document.getElementById("live-said");
  const panel = document.getElementById("playground");
  panel.hidden = true;

  function remarks({ instances, unknown, remark, classes }, milliseconds) {
    const of = instances.length ? `${instances[0].tokens.length} words, predicted ${instances[0].predicted}` : `classes ${classes.join(", ")}`;
    const rare = unknown.length ? ` The model does not know: ${unknown.slice(0, 12).join(", ")}${unknown.length > 12 ? ", …" : ""}.` : "";
    return `${of}; read in ${Math.round(milliseconds)} ms.${remark ? ` ${remark}.` : ""}${rare}`;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    const question = form.elements.question ? { question: form.elements.question.value } : {};
    const body = JSON.stringify({ text: form.elements.text.value, ...question });
    button.disabled = true;
    said.textContent = "Reading …";
    const start = performance.now();
    try {
      const answer = await fetch("read", { method: "POST", headers: { "Content-Type": "application/json" }, body });
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
      said.textContent = remarks(found, performance.now() - start);
      panel.hidden = found.instances.length === 0;
      if (found.instances.length) playground.load(found);
    } catch (error) {
      said.textContent = error instanceof TypeError ? "The server does not answer; start attnaudit serve again." : error.message;
      panel.hidden = true;
    } finally {
      button.disabled = false;
    }
  });
  form.elements.text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
})();
