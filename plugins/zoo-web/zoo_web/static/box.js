// The box: a person drops, pastes, chooses or photographs an image, and models answer side by side.
//
//   classifyBox(element, [{title: "cnn", runner, chosen: true, group: "cifar10"}])
//
// A runner computes the answer, in the page (onnx.js) or on a server:
//   runner.classify(imageBytes) -> {classes, probabilities, milliseconds, seen, words}
//     imageBytes: Uint8Array, the file as it was given. seen: {width, height, pixels} with RGBA
//     bytes, the image as the network sees it; or null. words, optional: what else it says, or all
//     that a model says that gives no classes; a line each.
//   runner.prepare(report), optional: brings what it needs before it is asked; report(sentence).
//   runner.cost, optional: a sentence such as "4.6 MB to load".
// Errors that a runner throws are sentences for people.

const SHOWN = 5;

export function classifyBox(element, models) {
  const box = build(element, models);
  let latest = 0; // an answer to an earlier image is not shown
  let image = null;

  async function take(file) {
    if (!file) return;
    const mine = ++latest;
    image = { bytes: new Uint8Array(await file.arrayBuffer()), name: file.name || "the image" };
    if (mine === latest) await ask(mine, models.map((_, place) => place));
  }

  async function ask(mine, places) {
    for (const place of places) {
      // one after the other: two at once would only wait for each other
      if (mine !== latest || !box.chosen(place)) continue;
      await answer(place, mine);
    }
  }

  async function answer(place, mine) {
    const { title, runner } = models[place];
    const card = box.card(place, title);
    card.say("Computing ...");
    try {
      if (runner.prepare) await runner.prepare((sentence) => card.say(sentence));
      const found = await runner.classify(image.bytes);
      if (mine === latest) card.show(found, image);
    } catch (error) {
      if (mine === latest) card.fail(error.message);
    }
  }

  box.onfile = take;
  box.onchoice = (place) => {
    if (!box.chosen(place)) box.remove(place);
    else if (image) answer(place, latest);
  };
  return { take };
}

function build(element, models) {
  element.replaceChildren();
  const box = { onfile() {}, onchoice() {} };
  const drop = make("div", { class: "drop" });
  drop.append(make("p", {}, "Drop an image here, or paste one."));
  const ways = make("div", { class: "ways" });
  ways.append(picker("Choose an image", false), picker("Take a photograph", true));
  drop.append(ways);
  element.append(drop);

  function picker(words, camera) {
    const input = make("input", { type: "file", accept: "image/*", class: "hidden", tabindex: "-1" });
    input.setAttribute("aria-hidden", "true"); // the button beside it says what it is for
    if (camera) input.setAttribute("capture", "environment");
    const button = make("button", { type: "button", class: camera ? "" : "first" }, words);
    button.addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      box.onfile(input.files[0]);
      input.value = ""; // the same file may be chosen again
    });
    const both = make("span");
    both.append(button, input);
    return both;
  }

  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    box.onfile(imageOf(event.dataTransfer));
  });
  document.addEventListener("paste", (event) => {
    const file = imageOf(event.clipboardData);
    if (file) box.onfile(file);
  });

  const boxes = models.map(() => null);
  if (models.length > 1) {
    const choice = make("fieldset", { class: "models" });
    choice.append(make("legend", {}, "Models that answer"));
    const groups = new Map();
    models.forEach((model, place) => {
      const name = model.group || "";
      if (!groups.has(name)) {
        const group = make("div", { class: "group" });
        if (name) group.append(make("span", { class: "quiet" }, name));
        groups.set(name, group);
        choice.append(group);
      }
      const label = make("label");
      boxes[place] = make("input", { type: "checkbox" });
      boxes[place].checked = Boolean(model.chosen);
      boxes[place].addEventListener("change", () => box.onchoice(place));
      label.append(boxes[place], ` ${model.title} `);
      if (model.runner.cost) label.append(make("span", { class: "quiet" }, model.runner.cost));
      groups.get(name).append(label);
    });
    element.append(choice);
  } else if (models.length && models[0].runner.cost) {
    element.append(make("p", { class: "quiet" }, models[0].runner.cost));
  }

  const answers = make("div", { class: "answers", "aria-live": "polite" });
  element.append(answers);
  const cards = new Map();

  box.chosen = (place) => !boxes[place] || boxes[place].checked;
  box.remove = (place) => {
    cards.get(place)?.remove();
    cards.delete(place);
  };
  box.card = (place, title) => {
    if (!cards.has(place)) {
      const card = make("section", { class: "card answer", "aria-label": title });
      cards.set(place, card);
      const after = [...cards.keys()].filter((other) => other > place).sort((a, b) => a - b)[0];
      answers.insertBefore(card, after === undefined ? null : cards.get(after));
    }
    return answerCard(cards.get(place), title);
  };
  return box;
}

function answerCard(card, title) {
  const heading = () => make("h3", {}, title);
  return {
    say(sentence) {
      card.replaceChildren(heading(), make("p", { class: "quiet" }, sentence));
    },
    fail(sentence) {
      card.replaceChildren(heading(), make("p", { class: "bad", role: "alert" }, sentence));
    },
    show({ classes, probabilities, milliseconds, seen, words = [] }, image) {
      const order = [...probabilities.keys()].sort((a, b) => probabilities[b] - probabilities[a]);
      const list = make("ol", { class: "likely" });
      for (const place of order.slice(0, SHOWN)) {
        const value = `${(100 * probabilities[place]).toFixed(1)} %`;
        const row = make("li");
        const bar = make("progress", { max: 1, value: probabilities[place] });
        bar.setAttribute("aria-hidden", "true"); // the figure beside it says the same
        row.append(make("span", {}, classes[place]), make("span", { class: "value" }, value), bar);
        list.append(row);
      }
      const pair = make("div", { class: "pair" });
      pair.append(figure(given(image), "your image"));
      if (seen) pair.append(figure(drawn(seen), "as the network sees it"));
      const took = make("p", { class: "quiet" }, `${milliseconds.toFixed(0)} ms`);
      took.append(make("span", { class: "hidden" }, " to compute"));
      const told = words.map((line) => make("p", { class: "told" }, line));
      card.replaceChildren(heading(), pair, ...told, list, took);
      card.dataset.answer = JSON.stringify({ classes, probabilities: [...probabilities], milliseconds });
    },
  };
}

function given({ bytes, name }) {
  const shown = make("img", { alt: name });
  const url = URL.createObjectURL(new Blob([bytes]));
  shown.addEventListener("load", () => URL.revokeObjectURL(url));
  shown.addEventListener("error", () => URL.revokeObjectURL(url));
  shown.src = url;
  return shown;
}

function drawn({ width, height, pixels }) {
  const canvas = make("canvas", { width, height, role: "img" });
  canvas.setAttribute("aria-label", `the image in ${width} x ${height} pixels`);
  canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
  return canvas;
}

function figure(content, caption) {
  const made = make("figure");
  made.append(content, make("figcaption", {}, caption));
  return made;
}

function imageOf(transfer) {
  return [...(transfer?.files || [])].find((file) => file.type.startsWith("image/")) || null;
}

function make(tag, attributes = {}, text = "") {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  return made;
}
