// What the pages of the gallery do: the box and the walk.

import { classifyBox } from "./box.js";
import { onnxRunner } from "./onnx.js";
import "./charts.js";
import "./tables.js";

const said = document.getElementById("models");
const element = document.getElementById("box");
if (said && element) {
  const { models, runtime } = JSON.parse(said.textContent);
  const here = (path) => new URL(path, document.baseURI).href; // an import has another base
  const found = { ...runtime, script: here(runtime.script), program: here(runtime.program) };
  classifyBox(
    element,
    models.map((model) => ({
      title: model.title,
      group: model.dataset,
      chosen: model.chosen,
      runner: onnxRunner({ ...model, file: here(model.file) }, found),
    })),
  );
}
for (const walk of document.querySelectorAll(".walk")) walking(walk);

// The sample at one place of the walk; all samples stand in one image.
function walking(walk) {
  const picture = walk.querySelector("image");
  const choice = walk.querySelector("select");
  const range = walk.querySelector("input");
  const button = walk.querySelector("button");
  const [frames, width, height] = ["frames", "width", "height"].map((name) => Number(walk.dataset[name]));
  walk.querySelector(".controls").hidden = false;
  const show = () => {
    picture.setAttribute("x", -width * range.value);
    picture.setAttribute("y", -height * (choice?.value || 0));
  };
  let timer = null;
  range.addEventListener("input", show);
  choice?.addEventListener("change", show);
  button.addEventListener("click", () => {
    if (timer) clearInterval(timer);
    timer = timer
      ? null
      : setInterval(() => {
          range.value = (Number(range.value) + 1) % frames;
          show();
        }, 200);
    button.setAttribute("aria-pressed", String(Boolean(timer)));
    button.textContent = timer ? "Stop" : "Walk";
  });
}
