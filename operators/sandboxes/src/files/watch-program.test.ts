import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FolderRecords, reportOf } from "./folder-changes.ts";
import { watchCommand } from "./watch-program.ts";

let base: string;
let root: string;
let watcher: ChildProcess | undefined;
let parts: AsyncIterator<Buffer>;
let records: FolderRecords;
let seen: string[];

const at = (path: string): string => join(root, path);

/** Reads until there is a record, or the program exits. */
async function until(last: string): Promise<void> {
  while (!seen.includes(last)) {
    const part = await parts.next();
    if (part.done) throw new Error(`exited before ${last}: ${seen.join(" ")}`);
    seen.push(...records.read(part.value));
  }
}

/** Starts a watch. Returns the first record. */
async function start(path: string, isRecursive = false, maxFolders?: number): Promise<string> {
  const [program = "", ...args] = watchCommand(path, isRecursive, maxFolders) ?? [];
  const fd = openSync(root, "r");
  watcher = spawn(program, args, { stdio: ["pipe", "pipe", "inherit", fd] });
  closeSync(fd);
  if (watcher.stdout === null) throw new Error("has no output");
  parts = (watcher.stdout as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  records = new FolderRecords();
  seen = [];
  while (seen.length === 0) {
    const part = await parts.next();
    if (part.done) return "";
    seen.push(...records.read(part.value));
  }
  return seen.shift() ?? "";
}

/** CPU time of the watcher, in nanoseconds. */
const cpuTime = (): number => Number(readFileSync(`/proc/${watcher?.pid}/schedstat`, "utf8").split(" ")[0]);

/** Largest resident memory of the watcher so far, in KiB. */
const peakMemory = (): number => Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${watcher?.pid}/status`, "utf8"))?.[1]);

const swapped = ([one, other]: [string, string]): [string, string] => [other, one];

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "watch-program-"));
  root = join(base, "root");
  mkdirSync(at("work/sub"), { recursive: true });
  mkdirSync(join(base, "outside"));
});

afterEach(async () => {
  if (watcher !== undefined && watcher.exitCode === null && watcher.signalCode === null) {
    watcher.kill("SIGKILL");
    await once(watcher, "exit");
  }
  rmSync(base, { recursive: true, force: true });
});

describe.runIf(process.platform === "linux" && watchCommand("/", false) !== undefined)(
  "the program that watches a directory",
  () => {
    it("reports each kind of change in a directory, but not in those below it", async () => {
      expect(await start("/work")).toBe("s");
      writeFileSync(at("work/a\nb"), "text");
      chmodSync(at("work/a\nb"), 0o600);
      writeFileSync(at("work/sub/unseen"), "text");
      renameSync(at("work/a\nb"), at("work/c"));
      unlinkSync(at("work/c"));
      await until("rfc");
      expect(seen).toEqual(["cfa\nb", "wfa\nb", "afa\nb", "nfa\nb", "cfc", "rfc"]);
    });

    it("follows directories that are created, moved and removed below it", async () => {
      expect(await start("/work", true)).toBe("s");
      // Its content may be older than its watch.
      mkdirSync(at("work/new/er"), { recursive: true });
      writeFileSync(at("work/new/er/early"), "");
      await until("cdnew/er");
      await until("cfnew/er/early");
      renameSync(at("work/new"), at("work/sub/moved"));
      await until("cdsub/moved/er");
      await until("cfsub/moved/er/early");
      writeFileSync(at("work/sub/moved/er/late"), "");
      await until("cfsub/moved/er/late");
      expect(seen).toContain("ndnew");
      renameSync(at("work/sub/moved"), join(base, "outside/moved"));
      await until("ndsub/moved");
      writeFileSync(join(base, "outside/moved/er/unseen"), "");
      writeFileSync(at("work/end"), "");
      await until("cfend");
      expect(seen.filter((record) => record.includes("unseen"))).toEqual([]);
    });

    it.each([
      ["removed", "rd.", () => rmSync(at("work/sub"), { recursive: true })],
      ["renamed", "nd.", () => renameSync(at("work/sub"), at("work/other"))],
    ])("ends when the directory is %s", async (_, last, change) => {
      expect(await start("/work/sub", true)).toBe("s");
      change();
      await until(last);
      expect((await parts.next()).done).toBe(true);
    });

    it("does not leave the root: through links, parents, or directories that become links", async () => {
      symlinkSync("/work/sub", at("work/in"));
      symlinkSync(join(base, "outside"), at("work/out"));
      symlinkSync("../../../outside", at("work/up"));
      const missing = `x${constants.errno.ENOENT}`;
      expect(await start("/work/out")).toBe(missing);
      expect(await start("/work/up")).toBe(missing);
      expect(await start("/../../outside")).toBe(missing);
      expect(await start("/work/none/../..")).toBe(missing);
      expect(await start("/work/in")).toBe("s");
      writeFileSync(at("work/sub/file"), "");
      await until("cffile");
      watcher?.kill("SIGKILL");
      // Links below a watched directory are not followed either, whenever they are created.
      expect(await start("/", true)).toBe("s");
      symlinkSync(join(base, "outside"), at("work/sub/later"));
      for (let round = 0; round < 200; round += 1) {
        mkdirSync(at("work/swap"));
        renameSync(at("work/swap"), at("work/gone"));
        symlinkSync(join(base, "outside"), at("work/swap"));
        unlinkSync(at("work/swap"));
        rmSync(at("work/gone"), { recursive: true });
      }
      writeFileSync(join(base, "outside/secret"), "");
      writeFileSync(at("work/end"), "");
      await until("cfwork/end");
      expect(seen.filter((record) => record.includes("secret"))).toEqual([]);
    });

    it("reports that changes were lost when they are not read, and all later ones", async () => {
      expect(await start("/work", true)).toBe("s");
      // Two events each. The names fill the pipe, so that the program no longer reads events.
      const names = ["a".repeat(200), "b".repeat(200)].map((name) => at(`work/${name}`)) as [string, string];
      const queueSize = Number(readFileSync("/proc/sys/fs/inotify/max_queued_events", "utf8"));
      writeFileSync(names[0], "");
      for (let round = 0; round < queueSize / 2 + 2_000; round += 1) renameSync(...(round % 2 === 0 ? names : swapped(names)));
      mkdirSync(at("work/unnoticed"));
      await until("o");
      // Nothing tells when the directory whose event was lost is watched again, so a write may be too early.
      const writes = setInterval(() => writeFileSync(at("work/unnoticed/file"), "text"), 10);
      try {
        await until("wfunnoticed/file");
      } finally {
        clearInterval(writes);
      }
    });

    it("takes no longer for a renamed directory if there are many others", async () => {
      const cpuOf = async (prepare: () => void): Promise<number> => {
        prepare();
        mkdirSync(at("work/sub/0"));
        expect(await start("/work", true)).toBe("s");
        const before = cpuTime();
        for (let round = 0; round < 500; round += 1) renameSync(at(`work/sub/${round}`), at(`work/sub/${round + 1}`));
        await until("cdsub/500");
        const used = cpuTime() - before;
        rmSync(at("work/sub/500"), { recursive: true });
        return used;
      };
      const few = await cpuOf(() => {});
      watcher?.kill("SIGKILL");
      const many = await cpuOf(() => {
        for (let count = 0; count < 1_000; count += 1) mkdirSync(at(`work/other${count}`));
      });
      expect(many).toBeLessThan(3 * few);
    });

    it("does not collect directories that it cannot watch", async () => {
      expect(await start("/work", true, 10)).toBe("s");
      const before = peakMemory();
      // Each path has more than 3,000 bytes.
      const long = "x".repeat(250);
      const big = join(base, "outside/big", ...Array.from({ length: 12 }, () => long));
      mkdirSync(big, { recursive: true });
      for (let count = 0; count < 1_000; count += 1) mkdirSync(join(big, String(count)));
      renameSync(join(base, "outside/big"), at("work/big"));
      await until("o");
      expect(peakMemory() - before).toBeLessThan(1024);
    });

    it("ignores signals, which a sandbox that is being stopped gets in all its processes", async () => {
      expect(await start("/work")).toBe("s");
      for (const signal of ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGQUIT"] as const) watcher?.kill(signal);
      writeFileSync(at("work/after"), "");
      await until("cfafter");
    });

    it("rejects more directories than it can watch, and reports those that appear later", async () => {
      for (const name of ["a", "b", "c"]) mkdirSync(at(`work/sub/${name}`));
      expect(await start("/work", true, 4)).toBe("m");
      expect(await start("/work", true, 5)).toBe("s");
      mkdirSync(at("work/beyond"));
      await until("o");
      expect(seen).toContain("cdbeyond");
    });

    it("rejects a file, and exits when its input is closed", async () => {
      writeFileSync(at("work/file"), "");
      expect(await start("/work/file")).toBe(`x${constants.errno.ENOTDIR}`);
      expect(await start("/work")).toBe("s");
      watcher?.stdin?.end();
      expect((await parts.next()).done).toBe(true);
    });
  },
);

describe("records of a watch", () => {
  it("may be cut anywhere, also within a character", () => {
    const bytes = Buffer.from("cfé\0wfé\0");
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      const decoder = new FolderRecords();
      expect([...decoder.read(bytes.subarray(0, cut)), ...decoder.read(bytes.subarray(cut))]).toEqual(["cfé", "wfé"]);
    }
  });

  it("become a report without repeated changes", () => {
    expect(reportOf(["cfa", "wfa", "wfa", "o", "wfa", "wdb"])).toEqual({
      changes: [
        { type: "create", path: "a", isDirectory: false },
        { type: "write", path: "a", isDirectory: false },
        { type: "write", path: "b", isDirectory: true },
      ],
      isLossy: true,
    });
  });
});
