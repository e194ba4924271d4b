import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import {
  createBubblewrapDriver,
  createContainerdDriver,
  createProcessDriver,
  type Driver,
  findBubblewrap,
  openContainerdImages,
  openImage,
  type ProgramSpec,
} from "@keelson/execution";
import { createBusyboxImage, startLocalContainerd } from "@keelson/execution/testing";
import { type Benchmark, type Figure, percentile } from "../../figure.ts";
import { createFolder, removeFolder } from "../../folder.ts";

const programs = 30;
const warmUps = 3;
const image = "example.org/busybox:1";

/** Durations of repeated runs in ms, after warm-up. */
async function measure(run: (index: number) => Promise<void>): Promise<readonly number[]> {
  const times: number[] = [];
  for (let index = -warmUps; index < programs; index++) {
    const start = performance.now();
    await run(index + warmUps);
    if (index >= 0) times.push(performance.now() - start);
  }
  return times;
}

/** Runs a command and waits for its exit. */
async function command(words: readonly [string, ...string[]]): Promise<void> {
  const [program, ...rest] = words;
  const child = spawn(program, rest, { stdio: "ignore" });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`${words.join(" ")} exited with ${code}`);
}

interface Subject {
  readonly driver: Driver;
  readonly spec: Omit<ProgramSpec, "id" | "command">;
  readonly peer: { readonly name: string; readonly words: (index: number) => readonly [string, ...string[]] };
}

/** Measures `true`: until it runs, and until its exit is recorded. */
async function figuresOf({ driver, spec, peer }: Subject): Promise<readonly Figure[]> {
  const running: number[] = [];
  const ours = await measure(async (index) => {
    const start = performance.now();
    const program = await driver.start({ ...spec, id: `p${index}`, command: ["true"] });
    if (index >= warmUps) running.push(performance.now() - start);
    const exited = await program.exited();
    if (exited.reason !== "Completed") throw new Error(`${driver.name}: ${exited.message}`);
  });
  const theirs = await measure((index) => command(peer.words(index)));
  return [0.5, 0.99].flatMap((fraction): readonly Figure[] => [
    {
      name: `${driver.name}: start -> running, p${fraction * 100}`,
      unit: "ms",
      ours: percentile(running, fraction),
      note: `${programs} programs, sequentially`,
    },
    {
      name: `${driver.name}: start -> exit, p${fraction * 100}`,
      unit: "ms",
      ours: percentile(ours, fraction),
      peer: { name: peer.name, value: percentile(theirs, fraction) },
      note: "ours with durable records of start and exit",
    },
  ]);
}

/** Calls `use` with a driver, then closes it. */
async function withDriver(driver: Driver, use: (driver: Driver) => Promise<readonly Figure[]>): Promise<readonly Figure[]> {
  try {
    return await use(driver);
  } finally {
    await driver.close();
  }
}

/**
 * Start time of a program as a process, in bubblewrap, and in a container, each compared with the bare command. Bubblewrap is skipped
 * without bwrap, containers without root and containerd.
 */
export const programStart: Benchmark = {
  name: "program-start",
  async run() {
    const dir = createFolder();
    const options = (name: string) => ({ dir: join(dir, name), clock: systemClock, random: Math.random });
    try {
      const figures = [
        ...(await withDriver(await createProcessDriver(options("process")), (driver) =>
          figuresOf({ driver, spec: {}, peer: { name: "spawn", words: () => ["true"] } }),
        )),
      ];
      const bwrap = findBubblewrap();
      if (bwrap !== undefined) {
        const isolation = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--unshare-all"];
        figures.push(
          ...(await withDriver(await createBubblewrapDriver(options("bubblewrap")), (driver) =>
            figuresOf({ driver, spec: {}, peer: { name: "bwrap", words: () => [bwrap, ...isolation, "true"] } }),
          )),
        );
      }
      return [...figures, ...(await containerdFigures(dir, options("containerd")))];
    } finally {
      removeFolder(dir);
    }
  },
};

async function containerdFigures(
  dir: string,
  options: { readonly dir: string; readonly clock: typeof systemClock; readonly random: () => number },
): Promise<readonly Figure[]> {
  if (process.getuid?.() !== 0) return [];
  const containerd = await startLocalContainerd(join(dir, "c")).catch(() => undefined);
  if (containerd === undefined) return [];
  try {
    const { socket } = containerd;
    const images = await openContainerdImages({ socket, random: Math.random, now: Date.now });
    await createBusyboxImage(join(dir, "busybox.tar"));
    const archive = await openImage(join(dir, "busybox.tar"), { temporary: dir });
    await images.add(image, archive);
    await archive.close();
    const ctr = ["--address", socket, "--namespace", "keelson", "run", "--rm", "--net-host", image];
    return await withDriver(await createContainerdDriver({ ...options, socket }), (driver) =>
      figuresOf({
        driver,
        spec: { isolation: { image } },
        peer: { name: "ctr run", words: (index) => ["ctr", ...ctr, `c${index}`, "true"] },
      }),
    );
  } finally {
    await containerd.stop();
  }
}
