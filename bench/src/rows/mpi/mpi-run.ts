import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startKeelson } from "keelson/testing";
import { type Benchmark, type Figure, percentile } from "../../figure.ts";
import { type LocalKeelson, startLocalKeelson } from "../../local-keelson.ts";
import { MissingPeerError } from "../../missing-peer.ts";

const implementations = ["openmpi", "mpich"] as const;
type Implementation = (typeof implementations)[number];

/** Interleaved runs of each program. The best one counts, because other programs of the machine only make it slower. */
const runs = 3;
const outputLines = 100_000;
const outputLine = /^[01] \d{97}$/;

const sourceOf = (name: string): string => fileURLToPath(new URL(`../../../src/mpi/${name}.c`, import.meta.url));
const pi = fileURLToPath(new URL("../../../../examples/mpi/pi.c", import.meta.url));

/** A program that ended. */
interface Ended {
  readonly output: string;
  /** From the start of its process to its end. */
  readonly wholeMs: number;
  /** From its first to its last output. */
  readonly outputMs: number;
}

/**
 * `keelson mpi run` next to plain `mpiexec` with the same MPI: the time of a short program, messages between two ranks, and 10 MB of output.
 * Needs both MPIs.
 */
export const mpiRun: Benchmark = {
  name: "mpi-run",
  async run() {
    for (const each of implementations)
      if (!existsSync(`/usr/bin/mpicc.${each}`)) throw new MissingPeerError(`/usr/bin/mpicc.${each} not found`);
    const keelson = await startLocalKeelson();
    try {
      const figures: Figure[] = [];
      for (const each of implementations) figures.push(...(await compare(keelson, each)));
      return figures;
    } finally {
      await keelson.stop();
    }
  },
};

async function compare(keelson: LocalKeelson, implementation: Implementation): Promise<readonly Figure[]> {
  const programs = { pi, "ping-pong": sourceOf("ping-pong"), "long-output": sourceOf("long-output") };
  for (const [name, source] of Object.entries(programs))
    execFileSync(`/usr/bin/mpicc.${implementation}`, ["-O2", "-o", join(keelson.dir, name), source]);
  const of = (name: keyof typeof programs, flags: readonly string[] = [], options: readonly string[] = []) =>
    interleaved(
      () => runKeelson(keelson, [...flags, "--", join(keelson.dir, name)]),
      () => runMpiexec(implementation, [...options, join(keelson.dir, name)]),
    );
  // Open MPI only uses shared memory between ranks of one worker.
  const tcp = implementation === "openmpi" ? ["-mca", "btl", "tcp,self", "-mca", "btl_tcp_if_include", "lo"] : [];
  return [
    ...wholeTime(implementation, await of("pi")),
    ...messages(`${implementation}, two workers`, await of("ping-pong", [], tcp)),
    ...messages(`${implementation}, one worker`, await of("ping-pong", ["--slots", "2"])),
    ...output(implementation, await of("long-output")),
  ];
}

/** Our runs and those of the peer. */
interface Runs {
  readonly ours: readonly Ended[];
  readonly peer: readonly Ended[];
}

async function interleaved(runOurs: () => Promise<Ended>, runPeer: () => Promise<Ended>): Promise<Runs> {
  const ours: Ended[] = [];
  const peer: Ended[] = [];
  for (let index = 0; index < runs; index++) {
    ours.push(await runOurs());
    peer.push(await runPeer());
  }
  return { ours, peer };
}

function wholeTime(implementation: Implementation, { ours, peer }: Runs): readonly Figure[] {
  const best = (all: readonly Ended[]): number =>
    percentile(
      all.map(({ wholeMs }) => wholeMs),
      0,
    );
  return [
    {
      name: `${implementation}: keelson mpi run -n 2 -- pi, whole command`,
      unit: "ms",
      ours: best(ours),
      peer: { name: "mpiexec -n 2 pi", value: best(peer) },
      note: `best of ${runs} runs`,
    },
  ];
}

function messages(layout: string, { ours, peer }: Runs): readonly Figure[] {
  return ["8 B", "1 MiB"].map((size, column) => {
    const best = (all: readonly Ended[]): number =>
      percentile(
        all.map(({ output: text }) => messageTime(text, column)),
        0,
      );
    return {
      name: `${layout}: one-way time of a message of ${size}`,
      unit: "us",
      ours: best(ours),
      peer: { name: "mpiexec -n 2 with the same transport", value: best(peer) },
      note: `best of ${runs} runs`,
    };
  });
}

function messageTime(text: string, column: number): number {
  const time = Number(/^times (\S+) (\S+)$/m.exec(text)?.[column + 1] ?? Number.NaN);
  if (Number.isNaN(time)) throw new Error(`ping-pong printed ${JSON.stringify(text)}`);
  return time;
}

function output(implementation: Implementation, { ours, peer }: Runs): readonly Figure[] {
  const torn = (all: readonly Ended[]): number =>
    Math.max(...all.map(({ output: text }) => outputLines - text.split("\n").filter((line) => outputLine.test(line)).length));
  const best = (all: readonly Ended[]): number =>
    percentile(
      all.map(({ outputMs }) => outputMs),
      0,
    );
  const common = { note: `best of ${runs} runs` };
  return [
    {
      name: `${implementation}: 10 MB of output, first to last byte`,
      unit: "ms",
      ours: best(ours),
      peer: { name: "mpiexec", value: best(peer) },
      ...common,
    },
    {
      name: `${implementation}: torn lines of ${outputLines}`,
      unit: "",
      ours: torn(ours),
      peer: { name: "mpiexec", value: torn(peer) },
      note: `most of ${runs} runs`,
    },
  ];
}

async function runKeelson({ kubeconfig, dir }: LocalKeelson, words: readonly string[]): Promise<Ended> {
  const startedAt = performance.now();
  const run = startKeelson(["mpi", "run", "-n", "2", ...words], { env: { KUBECONFIG: kubeconfig }, cwd: dir });
  return ended("keelson mpi run", run.child, startedAt);
}

async function runMpiexec(implementation: Implementation, words: readonly string[]): Promise<Ended> {
  const startedAt = performance.now();
  const flags = implementation === "openmpi" ? ["--allow-run-as-root", "--oversubscribe"] : [];
  const child = spawn(`/usr/bin/mpiexec.${implementation}`, [...flags, "-n", "2", ...words], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  return ended("mpiexec", child, startedAt);
}

/** Waits for the end of a program. **Errors**: its standard error, if it fails. */
function ended(what: string, child: ChildProcess, startedAt: number): Promise<Ended> {
  return new Promise((resolve, reject) => {
    let firstAt: number | undefined;
    let lastAt = startedAt;
    let [text, errors] = ["", ""];
    child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
      lastAt = performance.now();
      firstAt ??= lastAt;
      text += chunk;
    });
    child.stderr?.setEncoding("utf8").on("data", (chunk: string) => (errors += chunk));
    child.once("error", reject);
    child.once("close", (code) => {
      const now = performance.now();
      if (code !== 0) reject(new Error(`${what} exited with ${code}: ${errors}`));
      else resolve({ output: text, wholeMs: now - startedAt, outputMs: lastAt - (firstAt ?? lastAt) });
    });
  });
}
