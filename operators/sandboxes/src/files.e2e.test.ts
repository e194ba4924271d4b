import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { Code } from "@connectrpc/connect";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FileChangeType, FileType } from "@keelson/sandbox/protocol";
import { fileCommands } from "./commands/files.ts";
import { watchCommand } from "./commands/watch.ts";
import { fastPathTokenFile } from "./fastpath/access/describe-access.ts";
import { type LocalSandboxes, startLocalSandboxes } from "./testing/local-sandboxes.ts";

const isRoot = process.getuid?.() === 0;

describe("the files of a sandbox", () => {
  let local: LocalSandboxes;
  const at = (path: string) => ({ sandboxName: "one", path });

  beforeAll(async () => {
    local = await startLocalSandboxes();
    await local.pool({ poolMin: 1, poolMax: 1 }, 4);
    await local.sandbox("one", { envs: [{ name: "API_KEY", value: "key" }] });
    await local.phase("one", "Running");
  });

  afterAll(() => local.stop());

  async function read(path: string): Promise<string> {
    const chunks: Uint8Array[] = [];
    for await (const { data } of local.files.read(at(path))) chunks.push(data);
    return Buffer.concat(chunks).toString();
  }

  async function run(...command: string[]): Promise<string> {
    let output = "";
    async function* requests() {
      yield { request: { case: "start" as const, value: { sandboxName: "one", command } } };
      yield { request: { case: "closeStdin" as const, value: true } };
    }
    for await (const { response } of local.streams.exec(requests())) {
      if (response.case === "stdout") output += Buffer.from(response.value).toString();
    }
    return output;
  }

  async function* uploads(path: string, chunks: readonly Uint8Array[], mode = 0) {
    yield { request: { case: "start" as const, value: { ...at(path), mode } } };
    for (const data of chunks) yield { request: { case: "data" as const, value: data } };
    yield { request: { case: "commit" as const, value: true } };
  }

  it("are exchanged with its programs, as its user, up to megabytes", async () => {
    const data = Buffer.alloc(3_000_001, "0123456789");
    const chunks = [data.subarray(0, 1_000_000), data.subarray(1_000_000, 2_000_000), data.subarray(2_000_000)];
    const info = await local.files.write(uploads("folder.d", chunks, 0o755));
    expect(info).toMatchObject({ name: "folder.d", type: FileType.FILE, sizeBytes: 3_000_001n, mode: 0o755 });
    expect(await run("sh", "-c", "cd /work && stat -c '%u %s' folder.d && echo out >made && test -x folder.d && echo ok")).toBe(
      "0 3000001\nok\n",
    );
    expect(await read("/work/made")).toBe("out\n");
    expect(await read("folder.d")).toBe(data.toString());
    await local.files.makeDirectory(at("/tmp/a/b"));
    const names: string[] = [];
    for await (const { entries } of local.files.list(at("/work"))) names.push(...entries.map(({ name }) => name));
    expect(names).toEqual(expect.arrayContaining(["folder.d", "made"]));
    await local.files.remove({ ...at("/tmp/a"), recursive: true });
    await expect(local.files.stat(at("/tmp/a"))).rejects.toMatchObject({ code: Code.NotFound });
  });

  it.each([
    ["a file of the host", "/etc/shadow", [Code.NotFound]],
    ["the kernel's memory", "/proc/kcore", [Code.PermissionDenied, Code.NotFound]],
    ["a device", "/dev/null", [Code.FailedPrecondition]],
    ["the host's root behind a process", "/proc/1/root/etc/shadow", [Code.NotFound, Code.PermissionDenied]],
    ["a missing file", "none", [Code.NotFound]],
  ])("do not contain %s", async (_, path, codes) => {
    const problem = await read(path).then(
      () => undefined,
      (error: { code: Code }) => error.code,
    );
    expect(codes).toContain(problem);
  });

  it.each(["/proc/sys/kernel/core_pattern", "/usr/bin/new", "/etc/passwd", "/new"])(
    "cannot be written outside its own directories: %s",
    async (path) => {
      const problem = await local.files.write(uploads(path, [Buffer.from("x")])).then(
        () => undefined,
        (error: { code: Code }) => error.code,
      );
      expect([Code.PermissionDenied, Code.NotFound]).toContain(problem);
    },
  );

  it("keep their content if an upload breaks off, and reject a chunk above the limit", async () => {
    await local.files.write(uploads("kept", [Buffer.from("old")]));
    async function* broken(isError: boolean) {
      for await (const message of uploads("kept", [Buffer.from("new")])) if (message.request.case !== "commit") yield message;
      if (isError) throw new Error("the caller has gone away");
    }
    await expect(local.files.write(broken(true))).rejects.toThrow();
    await expect(local.files.write(broken(false))).rejects.toMatchObject({ code: Code.Aborted });
    const huge = local.files.write(uploads("kept", [Buffer.alloc(2 << 20)]));
    await expect(huge).rejects.toMatchObject({ code: Code.ResourceExhausted });
    expect(await read("kept")).toBe("old");
    expect(await run("sh", "-c", 'until [ -z "$(ls -a /work | grep keelson-upload)" ]; do sleep 0.05; done; echo clean')).toBe(
      "clean\n",
    );
  });

  describe("with the commands ls, cat, rm and cp", () => {
    let folder: string;

    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), "copies-"));
      writeFileSync(join(folder, "token"), local.token);
    });

    afterAll(() => rmSync(folder, { recursive: true, force: true }));

    async function command(
      name: string,
      args: readonly string[],
      flags: Record<string, boolean> = {},
    ): Promise<[number, string]> {
      const found = fileCommands.find((each) => each.name === name);
      const [stdout, stderr] = [new PassThrough(), new PassThrough()];
      const status = await found?.run({
        ...{ args, stdout, stderr, clock: systemClock, log: silentLogger, signal: new AbortController().signal },
        flags: { endpoint: local.url, "token-file": join(folder, "token"), ...flags },
        client: () => Promise.reject(new Error("not used")),
      });
      stdout.end();
      stderr.end();
      return [status ?? -1, (await text(stdout)) + (await text(stderr))];
    }

    it("are copied there and back with their directories, and links stay behind", async () => {
      mkdirSync(join(folder, "tree", "deep"), { recursive: true });
      writeFileSync(join(folder, "tree", "one"), "first");
      writeFileSync(join(folder, "tree", "deep", "two"), "second");
      expect(await command("cp", [join(folder, "tree"), "one:copied"])).toEqual([0, ""]);
      await run("ln", "-s", "/etc/passwd", "/work/copied/link");
      const [status, output] = await command("ls", ["one", "copied"]);
      expect([status, output]).toEqual([
        0,
        expect.stringMatching(/^d0755 [\s\S]* deep\n[\s\S]*link -> \/etc\/passwd\n[\s\S]* one\n$/),
      ]);
      expect(await command("cat", ["one", "copied/deep/two"])).toEqual([0, "second"]);
      expect(await command("cp", ["one:copied", join(folder, "back")])).toEqual([
        0,
        "skipped copied/link: not a file or directory\n",
      ]);
      expect(readdirSync(join(folder, "back")).sort()).toEqual(["deep", "one"]);
      expect(readFileSync(join(folder, "back", "deep", "two"), "utf8")).toBe("second");
      // An existing directory gets the file under its name.
      expect(await command("cp", ["one:copied/one", join(folder, "back", "deep")])).toEqual([0, ""]);
      expect(readdirSync(join(folder, "back", "deep")).sort()).toEqual(["one", "two"]);
      expect(await command("rm", ["one", "copied"])).toEqual([1, expect.stringMatching(/not empty/)]);
      expect(await command("rm", ["one", "copied"], { recursive: true })).toEqual([0, ""]);
      expect(await command("cat", ["one", "copied/one"])).toEqual([1, expect.stringMatching(/not found/)]);
    });

    it("do not let a name in a sandbox write to the terminal", async () => {
      await run("sh", "-c", "mkdir /work/names; touch \"$(printf '/work/names/a\\033[2Jb')\"");
      expect(await command("ls", ["one", "names"])).toEqual([0, expect.stringMatching(/ a\?\[2Jb\n$/)]);
    });

    it("need exactly one location in a sandbox, and a source that exists", async () => {
      expect(await command("cp", ["a", "b"])).toEqual([2, expect.stringMatching(/NAME:PATH/)]);
      expect(await command("cp", ["one:a", "one:b"])).toEqual([2, expect.stringMatching(/NAME:PATH/)]);
      expect(await command("cp", [join(folder, "none"), "one:b"])).toEqual([2, expect.stringMatching(/^SOURCE: ENOENT/)]);
    });
  });

  it("are watched with the directories below, by the command too, until the directory is removed", async () => {
    await run("mkdir", "/work/watched");
    const watch = local.files.watch({ ...at("watched"), recursive: true })[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ started: true, changes: [] });
    const seen: string[] = [];
    const until = async (last: string): Promise<void> => {
      while (!seen.includes(last)) {
        const { value } = await watch.next();
        if (value === undefined) throw new Error(`the watch ended before ${last}`);
        expect(value.lostChanges).toBe(false);
        for (const { type, path } of value.changes) seen.push(`${FileChangeType[type]} ${path}`);
      }
    };
    await run("mkdir", "/work/watched/deep");
    await until("CREATE deep");
    await run("sh", "-c", "cd /work/watched && echo text >deep/a && chmod 600 deep/a && mv deep/a b && rm b");
    await until("REMOVE b");
    const changes = ["CREATE deep/a", "WRITE deep/a", "CHMOD deep/a", "RENAME deep/a", "CREATE b", "REMOVE b"];
    expect(seen.slice(1)).toEqual(changes);
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    const command = watchCommand.run({
      ...{ args: ["one", "watched"], stdout, stderr, clock: systemClock, log: silentLogger },
      flags: { endpoint: local.url, "token-file": fastPathTokenFile(local.dataDir), output: "json" },
      signal: new AbortController().signal,
      client: () => Promise.reject(new Error("not used")),
    });
    // It prints nothing to standard output before the first change.
    const output = text(stdout);
    await local.files.write(uploads("watched/c", [Buffer.from("text")]));
    await until("CREATE c");
    while (!stdout.writableLength && !stdout.readableDidRead) await run("sh", "-c", "echo text >/work/watched/c");
    await run("rm", "-r", "/work/watched");
    await until("REMOVE .");
    expect((await watch.next()).done).toBe(true);
    expect(await command).toBe(0);
    stdout.end();
    expect(await output).toMatch(/^\{"type":"FILE_CHANGE_TYPE_REMOVE","path":"\.","isDirectory":true\}\n$/m);
  });

  it("are not watched without a directory, or beyond the limit of watches", async () => {
    const start = async (path: string, signal: AbortSignal): Promise<void> => {
      for await (const { started } of local.files.watch(at(path), { signal })) if (started) return;
    };
    const control = new AbortController();
    const problemOf = (path: string) =>
      start(path, control.signal).then(
        () => undefined,
        (error: { code: Code }) => error.code,
      );
    await local.files.write(uploads("plain", [Buffer.from("x")]));
    await run("ln", "-s", "/root", "/work/outside");
    expect(await problemOf("plain")).toBe(Code.FailedPrecondition);
    expect(await problemOf("none")).toBe(Code.NotFound);
    expect([Code.NotFound, Code.PermissionDenied]).toContain(await problemOf("outside"));
    const many = Array.from({ length: 17 }, async () => {
      const watch = local.files.watch(at("."), { signal: AbortSignal.any([control.signal]) })[Symbol.asyncIterator]();
      return watch.next().then(
        () => undefined,
        (error: { code: Code }) => error.code,
      );
    });
    expect((await Promise.all(many)).filter((code) => code !== undefined)).toEqual([Code.ResourceExhausted]);
    control.abort();
    // A closed watch makes room for another.
    const later = new AbortController();
    for (;;) {
      const problem = await start(".", later.signal).then(
        () => undefined,
        (error: { code: Code }) => error.code,
      );
      if (problem === undefined) break;
      expect(problem).toBe(Code.ResourceExhausted);
    }
    later.abort();
  });

  it("can be used while another caller does not take what it reads", async () => {
    await local.files.write(uploads("large", [Buffer.alloc(900_000)]));
    const slow = local.files.read(at("large"))[Symbol.asyncIterator]();
    await slow.next();
    expect((await local.files.stat(at("large"))).sizeBytes).toBe(900_000n);
    await slow.return?.();
  });

  it("can be used while it is paused, and not once it has ended", async () => {
    if (isRoot) {
      await local.lifecycle.pause({ sandboxName: "one" });
      await local.files.write(uploads("paused", [Buffer.from("text")]));
      expect(await read("paused")).toBe("text");
      await local.lifecycle.resume({ sandboxName: "one" });
    }
    await local.sandbox("done", { command: ["true"] });
    await local.phase("done", "Succeeded");
    await expect(local.files.stat({ sandboxName: "done", path: "." })).rejects.toMatchObject({ code: Code.FailedPrecondition });
    await expect(local.files.stat({ sandboxName: "none", path: "." })).rejects.toMatchObject({ code: Code.NotFound });
  });
});
