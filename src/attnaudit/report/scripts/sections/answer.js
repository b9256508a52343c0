// The first screen: another text, and the sentence to copy.
const sentence = document.querySelector("h1"), copy = document.querySelector("[name=copy]");
const examples = Array.from(document.querySelectorAll("#answer .example"));

for (const made of document.querySelectorAll("[name=another]")) {
  made.hidden = false;
  on(made, "click", () => {
    const shown = examples.findIndex(({ hidden }) => !hidden), next = examples[(shown + 1) % examples.length];
    examples[shown].hidden = true;
    next.hidden = false;
    next.querySelector("[name=another]").focus({ preventScroll: true });
  });
}
copy.hidden = !navigator.clipboard;
on(copy, "click", async () => {
  await navigator.clipboard.writeText(sentence.textContent);
  copy.textContent = "Copied";
});
