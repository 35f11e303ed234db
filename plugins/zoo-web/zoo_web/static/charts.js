// Charts that read out their points: under the pointer, or with the arrow keys. It imports nothing.

for (const figure of document.querySelectorAll("figure.chart")) chart(figure);

function chart(figure) {
  const { dots, x, series } = JSON.parse(figure.dataset.chart);
  const svg = figure.querySelector("svg");
  const cross = svg.querySelector(".cross");
  const mark = svg.querySelector(".mark");
  const readout = figure.querySelector(".readout");
  const { height } = svg.viewBox.baseVal;
  // A stop is what an arrow key goes to: of dots one, of lines all that stand above each other.
  const places = dots
    ? series.flatMap((one) => one.points.map((point) => ({ at: point, shown: [[one, point]] })))
    : columns(series);
  places.sort((one, other) => one.at[0] - other.at[0] || one.at[1] - other.at[1]);
  let now = places.length - 1;

  const show = (place, pointed) => {
    now = Math.min(Math.max(place, 0), places.length - 1);
    const { at, shown } = places[now];
    if (pointed && !dots) cross.setAttribute("d", `M${at[0]} 10V${height - 36}`);
    if (pointed && dots) {
      mark.setAttribute("cx", at[0]);
      mark.setAttribute("cy", at[1]);
    }
    readout.replaceChildren(part("", `${x} ${at[2]}`), ...shown.map(([one, point]) => told(one, point)));
  };
  const hide = () => {
    cross.setAttribute("d", "");
    mark.setAttribute("cx", -9);
    show(places.length - 1, false);
    // A legend: of lines their last values stand there already.
    if (dots && series.length > 1) readout.replaceChildren(...series.map((one) => part(`swatch c${one.colour}`, one.name)));
  };

  svg.addEventListener("pointermove", (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const far = ({ at }) => (dots ? Math.hypot(at[0] - point.x, at[1] - point.y) : Math.abs(at[0] - point.x));
    let best = 0;
    places.forEach((place, number) => {
      if (far(place) < far(places[best])) best = number;
    });
    show(best, true);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("focus", () => show(now, true));
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const goal = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: places.length - 1 }[event.key];
    if (goal === undefined) return;
    event.preventDefault();
    show(goal, true);
  });
  hide();
}

function columns(series) {
  const found = new Map();
  for (const one of series)
    for (const point of one.points) {
      if (!found.has(point[0])) found.set(point[0], { at: point, shown: [] });
      found.get(point[0]).shown.push([one, point]);
    }
  return [...found.values()];
}

function told(one, [, , , y, words]) {
  return part(`swatch c${one.colour}`, `${words || one.name} ${y}`);
}

function part(kind, text) {
  const made = document.createElement("span");
  if (kind) made.className = kind;
  made.textContent = text;
  return made;
}
