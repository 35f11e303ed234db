// The box of `zoo serve`: a runner that asks the server.

import { classifyBox } from "./box.js";

const given = JSON.parse(document.getElementById("given").textContent);
const token = document.getElementById("token");

const runner = {
  async classify(bytes) {
    const form = new FormData();
    form.append("image", new Blob([bytes]), "image");
    form.append("top", given.top);
    form.append("seen", "true");
    const headers = token ? { authorization: `Bearer ${token.value.trim()}` } : {};
    let found;
    try {
      const answer = await fetch("predict", { method: "POST", body: form, headers });
      found = await answer.json();
    } catch {
      throw new Error("The server did not answer. Is it still running?");
    }
    if (found.error) throw new Error(sentence(found.error) + sentence(found.hint));
    const [said] = found.predictions;
    if (said.error) throw new Error(sentence(said.error));
    const classes = said.classes || [];
    return {
      classes: classes.map((one) => one.name),
      probabilities: classes.map((one) => one.probability),
      words: said.chosen ? said.words.slice(0, 1) : said.classes ? [] : said.words,
      milliseconds: found.milliseconds,
      seen: await pixelsOf(said.seen),
    };
  },
};

// Of a PNG in base64.
async function pixelsOf(coded) {
  const bytes = Uint8Array.from(atob(coded), (letter) => letter.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes]), { colorSpaceConversion: "none" });
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.drawImage(bitmap, 0, 0);
  return { width, height, pixels: context.getImageData(0, 0, width, height).data };
}

function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}. ` : "";
}

classifyBox(document.getElementById("box"), [{ title: given.title, runner, chosen: true }]);
