// A runner for box.js that computes in the page: onnxruntime-web on the file that zoo.export made.
//
//   onnxRunner({title, file, sha256, size, classes}, {script, program, sha256, size})
//
// Nothing is loaded before the first image. What was loaded is hashed before it is used.

const MOST_PIXELS = 4_000_000;
let engine = null; // a promise: one onnxruntime for all models of the page

export function onnxRunner(model, runtime) {
  let session = null;
  const runner = {
    cost: `${model.size} to load`,
    async prepare(report) {
      report(`Loading ${model.title}, ${model.size} ...`);
      session ??= load(model, runtime, report);
      try {
        await session;
      } catch (error) {
        session = null; // the next image tries again
        throw error;
      }
    },
    async classify(imageBytes) {
      await runner.prepare(() => {});
      const { data, width, height } = await decode(imageBytes);
      const started = performance.now();
      const { ort, ready } = await session;
      const image = new ort.Tensor("uint8", rgb(data), [1, height, width, 3]);
      const found = await ready.run({ image });
      const milliseconds = performance.now() - started;
      const probabilities = Float32Array.from(found.probabilities.data);
      return { classes: model.classes, probabilities, milliseconds, seen: seenBy(found.seen) };
    },
  };
  return runner;
}

async function load(model, runtime, report) {
  engine ??= start(runtime, report).catch((error) => {
    engine = null;
    throw error;
  });
  const ort = await engine;
  report(`Loading ${model.title}, ${model.size} ...`);
  const file = await fetched(model.file, model.sha256, `the weights of ${model.title}`);
  report(`Preparing ${model.title} ...`);
  const ready = await ort.InferenceSession.create(file, { executionProviders: ["wasm"] });
  return { ort, ready };
}

async function start(runtime, report) {
  report(`Loading onnxruntime, ${runtime.size} ...`);
  const [ort, packed] = await Promise.all([
    import(runtime.script),
    fetched(runtime.program, runtime.sha256, "onnxruntime"),
  ]);
  const program = new Response(packed).body.pipeThrough(new DecompressionStream("gzip"));
  // As bytes: then it does not matter what type the host says that a .wasm has.
  ort.env.wasm.wasmBinary = await new Response(program).arrayBuffer();
  ort.env.wasm.numThreads = 1;
  return ort;
}

// The bytes of a file, if they hash to what they should.
export async function fetched(url, sha256, what) {
  if (!globalThis.crypto?.subtle) {
    throw new Error(
      "This page cannot check what it loads here: browsers hash files only at https:// addresses " +
        "and at localhost. Open it there.",
    );
  }
  let answer;
  try {
    answer = await fetch(url);
  } catch {
    throw new Error(`Cannot load ${what}: there is no connection. Try again.`);
  }
  if (!answer.ok) throw new Error(`Cannot load ${what}: the server answers ${answer.status}.`);
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const found = [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  if (found !== sha256) {
    throw new Error(
      `Refused ${what}: the file is not the one that this site was made with ` +
        `(sha256 ${found.slice(0, 12)}..., not ${sha256.slice(0, 12)}...).`,
    );
  }
  return bytes;
}

// Pixels of an image file, turned upright; RGBA. Large photographs are made smaller first: the
// file computes with 8 bytes for each colour of each pixel, which telephones do not have room for.
async function decode(imageBytes) {
  const how = { colorSpaceConversion: "none", imageOrientation: "from-image" };
  const blob = new Blob([imageBytes]);
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob, how);
    const scale = Math.sqrt(MOST_PIXELS / (bitmap.width * bitmap.height));
    if (scale < 1) {
      const [resizeWidth, resizeHeight] = [bitmap.width, bitmap.height].map((side) =>
        Math.max(1, Math.floor(side * scale)),
      );
      bitmap.close();
      const smaller = { ...how, resizeWidth, resizeHeight, resizeQuality: "high" };
      bitmap = await createImageBitmap(blob, smaller);
    }
  } catch {
    throw new Error("This browser cannot read the file as an image. Try a JPEG, PNG or WebP.");
  }
  const { width, height } = bitmap;
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
  context.fillStyle = "white"; // behind what is transparent, as in zoo predict
  context.fillRect(0, 0, width, height);
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  return context.getImageData(0, 0, width, height);
}

function rgb(pixels) {
  const found = new Uint8Array((pixels.length / 4) * 3);
  for (let from = 0, to = 0; from < pixels.length; from += 4) {
    found[to++] = pixels[from];
    found[to++] = pixels[from + 1];
    found[to++] = pixels[from + 2];
  }
  return found;
}

// The output `seen`, uint8 (1, height, width, 3), as the pixels of a canvas.
function seenBy(tensor) {
  if (!tensor) return null;
  const [, height, width] = tensor.dims;
  const pixels = new Uint8ClampedArray(width * height * 4).fill(255);
  for (let from = 0, to = 0; from < tensor.data.length; to++) {
    pixels[to++] = tensor.data[from++];
    pixels[to++] = tensor.data[from++];
    pixels[to++] = tensor.data[from++];
  }
  return { width, height, pixels };
}
