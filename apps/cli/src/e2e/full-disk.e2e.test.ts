import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isStatusError } from "@keelson/api-machinery";
import { type Client, connect } from "@keelson/client";
import { expect, test } from "vitest";
import { startApiServerProcess } from "../testing/api-server-process.ts";
import { counted, type Counted } from "../testing/crash-writers.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/** A directory whose space can be exhausted. */
interface Cramped extends Disposable {
  /** Takes away the remaining space. */
  fill(pid: number): void;
  free(pid: number): void;
}

/** A small file system, which only root may mount. */
function smallFileSystem(dir: string): Cramped {
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=16m", "tmpfs", dir]);
  const filler = join(dir, "filler");
  return {
    fill() {
      const { bavail, bsize } = statfsSync(dir);
      writeFileSync(filler, Buffer.alloc(bavail * bsize - 64 * 1024));
    },
    free: () => rmSync(filler),
    [Symbol.dispose]: () => execFileSync("umount", ["--lazy", dir]),
  };
}

/** A limit on the size of the server's files (setrlimit(2), RLIMIT_FSIZE), which writes see as a full disk. */
function fileSizeLimit(dir: string): Cramped {
  const limit = (pid: number, bytes: number | "unlimited"): void => {
    execFileSync("prlimit", ["--pid", String(pid), `--fsize=${bytes}:`]);
  };
  return {
    fill: (pid) => limit(pid, statSync(join(dir, "data", "storage", "data.mdb")).size),
    free: (pid) => limit(pid, "unlimited"),
    [Symbol.dispose]: () => undefined,
  };
}

const isRoot = process.getuid?.() === 0;

const namespace = "default";

async function create(client: Client, name: string): Promise<void> {
  const data: Counted["data"] = { count: "0", again: "0", text: "x".repeat(2_000), from: "0" };
  await client.create(counted, { metadata: { namespace, name }, data });
}

async function names(client: Client): Promise<string[]> {
  const { items } = await client.list(counted, { namespace });
  return items.map(({ metadata }) => metadata.name ?? "").sort();
}

test.each([
  ...(isRoot ? [{ what: "the file system is full", make: smallFileSystem }] : []),
  { what: "the file size limit is reached", make: fileSizeLimit },
])(
  "when $what, rejects writes as InsufficientStorage, serves reads and watches, and accepts writes again once there is space",
  {
    timeout: 240_000,
  },
  async ({ make }) => {
    using folder = temporaryFolder();
    using cramped = make(folder.path);
    const dir = join(folder.path, "data");
    mkdirSync(dir);
    const stored: string[] = [];
    {
      await using server = await startApiServerProcess(dir);
      const pid = server.child.pid ?? 0;
      const client = await connect({ kubeconfig: join(dir, "kubeconfig") });
      const watch = await client.watch(counted, { namespace });
      const events = watch[Symbol.asyncIterator]();
      const seen: string[] = [];
      const see = async (): Promise<void> => {
        while (seen.length < stored.length) {
          const { value, done } = await events.next();
          if (done) throw new Error("the watch ended");
          seen.push(`${value.type} ${value.object.metadata.name}`);
        }
        expect(seen).toEqual(stored.map((name) => `ADDED ${name}`));
      };
      const add = async (name: string): Promise<void> => {
        await create(client, name);
        stored.push(name);
      };
      for (let index = 0; index < 10; index++) await add(`before-${index}`);

      cramped.fill(pid);
      let refusal: unknown;
      for (let index = 0; refusal === undefined && index < 10_000; index++) {
        await add(`last-${index}`).catch((error: unknown) => {
          refusal = error;
        });
      }
      if (!isStatusError(refusal)) throw new Error("no Status", { cause: refusal });
      expect(refusal.status).toMatchObject({ reason: "InsufficientStorage", code: 507 });
      expect(refusal.message).toBe("the storage could not write: no space left for the data directory");
      const together = await Promise.allSettled(Array.from({ length: 16 }, (_, index) => create(client, `refused-${index}`)));
      for (const { status } of together) expect(status).toBe("rejected");
      expect(await names(client)).toEqual([...stored].sort());
      expect((await client.get(counted, { namespace, name: "before-3" })).data?.text).toHaveLength(2_000);
      await see();
      const late = await client.watch(counted, { namespace });
      for await (const event of late) {
        expect(event.type).toBe("ADDED");
        break;
      }

      cramped.free(pid);
      for (let index = 0; index < 10; index++) await add(`after-${index}`);
      await see();
      expect(await names(client)).toEqual([...stored].sort());
      await client.close();
      server.child.kill("SIGKILL");
      expect(await server.exited).toBe("SIGKILL");
    }
    await using server = await startApiServerProcess(dir);
    const client = await connect({ kubeconfig: join(dir, "kubeconfig") });
    expect(await names(client)).toEqual([...stored].sort());
    await client.close();
    server.child.kill("SIGKILL");
  },
);

/** Creates up to `count` objects. Rejects with the first error. */
async function fillUp(client: Client, count: number): Promise<void> {
  for (let index = 0; index < count; index++) await create(client, `last-${index}`);
}

test.runIf(isRoot)(
  "starts and serves reads after a kill while the file system is full, and accepts writes once there is space",
  { timeout: 240_000 },
  async () => {
    using folder = temporaryFolder();
    using cramped = smallFileSystem(folder.path);
    const dir = join(folder.path, "data");
    mkdirSync(dir);
    const kubeconfig = join(dir, "kubeconfig");
    {
      await using server = await startApiServerProcess(dir);
      const client = await connect({ kubeconfig });
      await create(client, "before");
      await client.close();
      server.child.kill("SIGKILL");
      await server.exited;
    }
    const { bavail, bsize } = statfsSync(folder.path);
    writeFileSync(join(folder.path, "filler"), Buffer.alloc(bavail * bsize));
    expect(statfsSync(folder.path).bavail).toBe(0);
    const written = readFileSync(kubeconfig, "utf8");
    // A new port would change the kubeconfig, which cannot be written; the file must stay intact.
    await expect(startApiServerProcess(dir)).rejects.toThrow("ENOSPC");
    expect(readFileSync(kubeconfig, "utf8")).toBe(written);
    expect(readdirSync(dir).filter((name) => name.startsWith("kubeconfig"))).toEqual(["kubeconfig"]);
    const port = Number(/server: .*:(\d+)/.exec(written)?.[1]);
    await using server = await startApiServerProcess(dir, { port });
    const client = await connect({ kubeconfig });
    expect(await names(client)).toEqual(["before"]);
    // The database reuses free pages.
    await expect(fillUp(client, 1_000)).rejects.toMatchObject({ status: { reason: "InsufficientStorage" } });
    expect(await names(client)).toContain("before");
    cramped.free(server.child.pid ?? 0);
    await create(client, "after");
    expect(await names(client)).toContain("after");
    await client.close();
  },
);

test.runIf(isRoot)(
  "deletes objects from reserved space while the file system is full, also among rejected creates, and resumes writes without a restart",
  { timeout: 240_000 },
  async () => {
    using folder = temporaryFolder();
    using cramped = smallFileSystem(folder.path);
    const dir = join(folder.path, "data");
    mkdirSync(dir);
    await using server = await startApiServerProcess(dir);
    const pid = server.child.pid ?? 0;
    const client = await connect({ kubeconfig: join(dir, "kubeconfig") });
    for (let index = 0; index < 200; index++) await create(client, `before-${index}`);
    cramped.fill(pid);
    await expect(fillUp(client, 10_000)).rejects.toMatchObject({ status: { reason: "InsufficientStorage" } });
    for (let index = 0; index < 200; index += 2) {
      const [created] = await Promise.allSettled([
        create(client, `refused-${index}`),
        client.delete(counted, { namespace, name: `before-${index}` }),
        client.delete(counted, { namespace, name: `before-${index + 1}` }),
      ]).then((results) => {
        for (const result of results.slice(1)) expect(result).toMatchObject({ status: "fulfilled" });
        return results;
      });
      expect(created).toMatchObject({ status: "rejected", reason: { status: { code: 507 } } });
    }
    expect((await names(client)).filter((name) => name.startsWith("before"))).toEqual([]);
    cramped.free(pid);
    await create(client, "after");
    expect(await names(client)).toContain("after");
    await client.close();
    server.child.kill("SIGKILL");
  },
);
