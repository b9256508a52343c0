// A sentence is sent to the model, and the playground shows what the model says.
const form = byId("live-form"), panel = byId("playground"), said = byId("live-said");
const send = form.querySelector("button");
panel.hidden = true;

function remarks({ instances: [one], unknown, remark, classes }, milliseconds) {
  const read = one ? `${one.tokens.length} words, predicted ${one.predicted}` : `classes ${classes.join(", ")}`;
  const rare = unknown.slice(0, 12).join(", ") + (unknown.length > 12 ? ", …" : "");
  return [`${read}; read in ${Math.round(milliseconds)} ms.`, remark && `${remark}.`,
    rare && `The model does not know: ${rare}.`].filter(Boolean).join(" ");
}

on(form, "submit", async (event) => {
  event.preventDefault();
  const body = JSON.stringify(Object.fromEntries(new FormData(form)));
  const headers = { "Content-Type": "application/json" }, start = performance.now();
  send.disabled = true;
  said.textContent = "Reading …";
  try {
    const answer = await fetch("read", { method: "POST", headers, body }), data = await answer.json();
    if (!answer.ok) throw new Error(data.error);
    said.textContent = remarks(data, performance.now() - start);
    panel.hidden = data.instances.length === 0;
    if (!panel.hidden) playground.load(data);
  } catch (error) {
    said.textContent = error instanceof TypeError
      ? "The server does not answer; start it again." : error.message;
    panel.hidden = true;
  } finally {
    send.disabled = false;
  }
});
on(form.elements.text, "keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
