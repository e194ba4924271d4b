import { Worker } from "node:worker_threads";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import { type YamlLimits, type YamlResult, yamlToJson } from "./yaml-program.ts";

/** The YAML of one body may take this long. Legitimate bodies of the maximum size take about two seconds. */
const parseTimeoutMs = 10_000;
/** The worker stops after this time without work. */
const idleMs = 30_000;
/** Memory of the worker. A document of the maximum size needs about half of it. */
const heapMegabytes = 512;

interface Job {
  readonly text: string;
  readonly resolve: (result: YamlResult) => void;
}

/**
 * Parses YAML in a worker thread, one document at a time, so that a slow document never blocks the event loop. A document that takes too
 * long or too much memory only ends the worker.
 */
export class YamlWorker {
  readonly #clock: Clock;
  readonly #limits: YamlLimits;
  readonly #queue: Job[] = [];
  #worker: Worker | undefined;
  #current: Job | undefined;
  #timer: Timer | undefined;

  constructor(clock: Clock, limits: YamlLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /** Converts a document to JSON. Never rejects. */
  parse(text: string): Promise<YamlResult> {
    return new Promise((resolve) => {
      this.#queue.push({ text, resolve });
      this.#next();
    });
  }

  /** Stops the worker. Documents in progress are reported as too large. */
  async close(): Promise<void> {
    this.#timer?.cancel();
    for (const job of this.#queue.splice(0)) job.resolve({ kind: "too-many-values" });
    const worker = this.#worker;
    this.#fail();
    await worker?.terminate();
  }

  #next(): void {
    if (this.#current !== undefined) return;
    const job = this.#queue.shift();
    this.#timer?.cancel();
    if (job === undefined) {
      this.#timer = this.#clock.setTimer(idleMs, () => this.#stop(), { background: true });
      return;
    }
    this.#current = job;
    this.#timer = this.#clock.setTimer(parseTimeoutMs, () => this.#fail(), { background: true });
    this.#worker ??= this.#start();
    this.#worker.postMessage(job.text);
  }

  #start(): Worker {
    const worker = new Worker(program, {
      eval: true,
      workerData: { yaml: import.meta.resolve("yaml"), limits: this.#limits },
      resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
    });
    worker.unref();
    worker.on("message", (result: YamlResult) => {
      if (this.#worker !== worker) return;
      this.#current?.resolve(result);
      this.#current = undefined;
      this.#next();
    });
    // Out of memory: the document is at fault.
    worker.on("error", () => {
      if (this.#worker === worker) this.#fail();
    });
    return worker;
  }

  #stop(): void {
    const worker = this.#worker;
    this.#worker = undefined;
    void worker?.terminate();
  }

  #fail(): void {
    this.#stop();
    this.#current?.resolve({ kind: "too-many-values" });
    this.#current = undefined;
    if (this.#queue.length > 0) this.#next();
    else this.#timer?.cancel();
  }
}

const program = `
const { parentPort, workerData } = require("node:worker_threads");
const yamlToJson = ${yamlToJson.toString()};
const library = import(workerData.yaml);
parentPort.on("message", async (text) => parentPort.postMessage(yamlToJson(await library, text, workerData.limits)));
`;
