import { Code, ConnectError, type ConnectRouter, createRouterTransport } from "@connectrpc/connect";
import { create } from "@bufbuild/protobuf";
import { beforeEach, describe, expect, it } from "vitest";
import { type CreateRequest, FastPathService, WhenFull } from "./generated/fastpath/v1/fastpath_pb.ts";
import { FileChangeType, SandboxFiles as FilesService } from "./generated/keelson/sandboxes/v1/files_pb.ts";
import { SandboxLifecycle } from "./generated/keelson/sandboxes/v1/lifecycle_pb.ts";
import { SandboxPorts } from "./generated/keelson/sandboxes/v1/ports_pb.ts";
import {
  ProcessInfoSchema,
  type ProcessOutput,
  ProcessOutputSchema,
  ProcessState,
  SandboxProcesses,
  type StartProcessRequest,
} from "./generated/keelson/sandboxes/v1/processes_pb.ts";
import { Sandbox } from "./sandbox.ts";

const text = (value: string): Uint8Array => new TextEncoder().encode(value);
const part = (offset: number, output: ProcessOutput["output"]): ProcessOutput =>
  create(ProcessOutputSchema, { offset: BigInt(offset), output });
const exit = (exitCode: number, state = ProcessState.EXITED): ProcessOutput["output"] => ({
  case: "exit",
  value: create(ProcessInfoSchema, { processId: "p", state, exitCode }),
});

/** What the server was asked, and what it answers. */
let created: CreateRequest[];
let deleted: string[];
let started: StartProcessRequest[];
let signals: string[];
let input: string;
let accepts: (number | "lost")[];
let offsets: number[];
let cancelled: number;
let isWatchable: boolean;
let outputs: (() => AsyncIterable<ProcessOutput>)[];
let createError: ConnectError | undefined;
let box: Sandbox;

function routes(router: ConnectRouter): void {
  router.service(FastPathService, {
    createSandbox(request) {
      if (createError !== undefined) throw createError;
      created.push(request);
      return { sandboxName: request.name || "sb-1", sandboxId: "1" };
    },
    deleteSandbox({ sandboxName }) {
      deleted.push(sandboxName);
      throw new ConnectError("not found", Code.NotFound);
    },
    listSandboxes: () => ({ items: [{ sandboxName: "one", sandboxId: "id-1" }] }),
    getSandbox: () => ({ sandboxName: "one", endpoints: ["127.0.0.5:8080"] }),
  });
  router.service(SandboxProcesses, {
    start(request) {
      started.push(request);
      return { processId: "p", state: ProcessState.RUNNING };
    },
    async *output({ offset }, { signal }) {
      offsets.push(Number(offset));
      signal.addEventListener("abort", () => (cancelled += 1));
      yield* outputs.shift()?.() ?? [];
    },
    async writeInput({ data, offset, end }) {
      await new Promise((resolve) => setImmediate(resolve));
      // What was accepted before is skipped.
      const rest = data.subarray(input.length - Number(offset));
      const count = accepts.shift() ?? rest.length;
      const accepted = rest.subarray(0, count === "lost" ? rest.length : count);
      input += new TextDecoder().decode(accepted);
      if (count === "lost") throw new ConnectError("lost the agent", Code.Unavailable);
      const acceptedBytes = BigInt(input.length);
      if (end) input += ".";
      return { acceptedBytes };
    },
    signal({ signal }) {
      signals.push(signal);
      return {};
    },
  });
  router.service(FilesService, {
    async *read() {
      yield { data: text("abc") };
      yield { data: text("def") };
    },
    async write(requests) {
      for await (const { request } of requests)
        input += request.case === "data" ? new TextDecoder().decode(request.value) : `<${request.case}>`;
      return { name: "x", sizeBytes: 3n };
    },
    watch: ({ path, recursive }, { signal }) => watchOf(`${path} ${recursive}`, signal),
  });
  router.service(SandboxLifecycle, {
    renew({ expiry }) {
      input += `${expiry.case}=${expiry.value}`;
      return {};
    },
  });
}

async function* watchOf(call: string, signal: AbortSignal) {
  signal.addEventListener("abort", () => (cancelled += 1));
  if (!isWatchable) throw new ConnectError(`${call}: not a directory`, Code.FailedPrecondition);
  yield { started: true };
  yield { changes: [{ type: FileChangeType.CREATE, path: call, isDirectory: true }] };
  yield {
    lostChanges: true,
    changes: [
      { type: FileChangeType.RENAME, path: "b" },
      { type: 99, path: "of a later version" },
    ],
  };
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  signal.throwIfAborted();
}

function portRoutes(router: ConnectRouter): void {
  router.service(SandboxPorts, {
    createUrl: ({ sandboxName, port, expiresInMs }) => ({ url: `http://${port}-${sandboxName}/?${expiresInMs}` }),
  });
}

const transport = createRouterTransport((router) => {
  routes(router);
  portRoutes(router);
});

beforeEach(async () => {
  [created, deleted, started, signals, accepts, offsets, outputs, input] = [[], [], [], [], [], [], [], ""];
  createError = undefined;
  cancelled = 0;
  isWatchable = true;
  box = await Sandbox.create({ image: "host", name: "one", transport });
});

async function* parts(...all: readonly (ProcessOutput | ConnectError)[]): AsyncGenerator<ProcessOutput> {
  for (const each of all) {
    if (each instanceof ConnectError) throw each;
    yield each;
  }
}

const lost = new ConnectError("connection lost", Code.Unavailable);

describe("a sandbox", () => {
  it("is created with its options and deleted at the end of the block, even if it no longer exists", async () => {
    {
      // oxlint-disable-next-line typescript/await-thenable -- the linter reads tests without the library "esnext.disposable"
      await using other = await Sandbox.create({
        ...{ image: "i", pool: "p", transport, whenFull: "reject", timeoutMs: 0, command: ["run"] },
        network: { allow: [{ host: "pypi.org", ports: [443] }] },
      });
      expect(other.name).toBe("sb-1");
    }
    expect(created[1]).toMatchObject({
      ...{ image: "i", poolRef: "p", namespace: "default", whenFull: WhenFull.REJECT, expireTimeSeconds: 0n, command: ["run"] },
      ...{ network: "allowList", networkAllow: [{ host: "pypi.org", ports: [443] }] },
    });
    expect(deleted).toEqual(["sb-1"]);
    expect(created[0]).toMatchObject({ network: "none", command: ["sleep", "infinity"] });
    expect(Number(created[0]?.expireTimeSeconds) * 1000).toBeGreaterThan(Date.now());
  });

  it("reports a full pool with the server's hint when to retry", async () => {
    createError = new ConnectError("no free slot", Code.ResourceExhausted, { "grpc-retry-pushback-ms": "1500" });
    const full = Sandbox.create({ image: "host", transport });
    await expect(full).rejects.toMatchObject({ name: "SandboxError", code: "PoolFull", retryAfterMs: 1500 });
  });

  it("is found by name or id", async () => {
    expect((await Sandbox.connect("id-1", { transport })).name).toBe("one");
    await expect(Sandbox.connect("none", { transport })).rejects.toMatchObject({ code: "NotFound" });
    expect(await box.ports.address(8080)).toBe("127.0.0.5:8080");
    await expect(box.ports.address(80)).rejects.toMatchObject({ code: "NotFound" });
    expect(await box.ports.url(8080)).toBe("http://8080-one/?0");
    expect(await box.ports.url(8080, { expiresInMs: 1499.5 })).toBe("http://8080-one/?1500");
    for (const expiresInMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY])
      await expect(box.ports.url(8080, { expiresInMs })).rejects.toMatchObject({ code: "InvalidArgument" });
    await expect(box.ports.url(8080, { expiresInMs: 0 })).rejects.toThrow("expiresInMs: 0 must be greater than 0");
  });

  it("is renewed for a time from now, or without end", async () => {
    await box.renew(1_500);
    await box.renew(0);
    expect(input).toBe("expireInSeconds=2expireTimeSeconds=0");
  });

  it("rejects a token that no header can contain, without showing it", async () => {
    const listing = Sandbox.list({ endpoint: "127.0.0.1:1", token: " s3cr3t\nx " });
    await expect(listing).rejects.toMatchObject({ code: "InvalidArgument", message: expect.not.stringContaining("s3cr3t") });
    await expect(Sandbox.list({ endpoint: "127.0.0.1:1", token: "s3cr3t\n" })).rejects.toMatchObject({ code: "Unavailable" });
  });

  it("requires a token", async () => {
    await expect(Sandbox.list({ endpoint: "127.0.0.1:1" })).rejects.toMatchObject({ code: "Unauthenticated" });
  });
});

describe("a command", () => {
  it("returns its outputs and exit code, and gets its input", async () => {
    accepts = [2, 0];
    outputs = [
      () =>
        parts(
          part(0, { case: "stdout", value: text("out") }),
          part(3, { case: "stderr", value: text("err") }),
          part(6, exit(3)),
        ),
    ];
    const result = await box.exec("echo", {
      stdin: "typed",
      env: { A: "b" },
      workingDir: "/tmp",
      user: "7:8",
      timeoutMs: 1000,
    });
    expect(result).toMatchObject({ exitCode: 3, stdout: "out", stderr: "err" });
    expect(input).toBe("typed.");
    expect(started[0]).toMatchObject({
      ...{ command: ["sh", "-c", "echo"], env: { A: "b" }, workingDir: "/tmp", user: "7:8", stdin: true },
      ...{ timeoutMs: 1000n, maxUnattendedMs: 30_000n },
    });
    expect(signals).toEqual([]);
  });

  it("continues after dropped connections where its output stopped", async () => {
    outputs = [
      () => parts(part(0, { case: "stdout", value: text("ab") }), lost),
      () => parts(lost),
      () => parts(part(2, { case: "stdout", value: text("cd") })),
      () => parts(part(4, exit(0))),
    ];
    expect((await box.exec(["x"])).stdout).toBe("abcd");
    expect(offsets).toEqual([0, 2, 2, 4]);
  });

  it("rejects lost output, and is killed", async () => {
    outputs = [() => parts(part(0, { case: "lostBytes", value: 5n }))];
    await expect(box.exec(["x"])).rejects.toMatchObject({ code: "OutputLost" });
    outputs = [() => parts(part(0, { case: "stdout", value: text("too long") }))];
    await expect(box.exec(["x"], { maxOutputBytes: 3 })).rejects.toMatchObject({ code: "ResourceExhausted" });
    expect(signals).toEqual(["SIGKILL", "SIGKILL"]);
  });

  it("cancels the call for its output if the caller rejects a part", async () => {
    const endless = async function* () {
      yield part(0, { case: "stdout", value: text("too long") });
      await new Promise(() => {});
    };
    outputs = [endless, endless];
    await expect(box.exec(["x"], { maxOutputBytes: 3 })).rejects.toMatchObject({ code: "ResourceExhausted" });
    const refuse = (): never => {
      throw new Error("refused");
    };
    await expect(box.exec(["x"], { onOutput: refuse })).rejects.toThrow("refused");
    expect(cancelled).toBe(2);
  });

  it("gets concurrent writes in their order, whole and after what was written before", async () => {
    input = "before ";
    accepts = [0, 2, 1];
    const command = box.command("p");
    await Promise.all([command.write("first "), command.write("second"), command.closeInput()]);
    expect(input).toBe("before first second.");
  });

  it("does not get input again that a failed write has passed on", async () => {
    const command = await box.start(["cat"], { stdin: true });
    accepts = ["lost"];
    await expect(command.write("first ")).rejects.toMatchObject({ code: "Unavailable" });
    await command.write("second");
    expect(input).toBe("first second");
  });

  it("is killed if the caller aborts, which rejects with the caller's reason", async () => {
    const control = new AbortController();
    outputs = [
      async function* () {
        yield part(0, { case: "stdout", value: text("a") });
        await new Promise(() => {});
      },
    ];
    const reason = new Error("changed my mind");
    const running = box.exec(["x"], { signal: control.signal, onOutput: () => control.abort(reason) });
    await expect(running).rejects.toBe(reason);
    expect(signals).toEqual(["SIGKILL"]);
    await expect(box.exec(["x"], { signal: control.signal })).rejects.toBe(reason);
    expect(started).toHaveLength(1);
  });

  it("rejects after its timeout, and with check after another exit code than 0", async () => {
    outputs = [() => parts(part(0, exit(137, ProcessState.TIMED_OUT))), () => parts(part(0, exit(2)))];
    await expect(box.exec(["x"], { timeoutMs: 5 })).rejects.toMatchObject({ code: "TimedOut" });
    await expect(box.exec(["x"], { check: true })).rejects.toMatchObject({ code: "CommandFailed" });
  });
});

describe("files", () => {
  it("are read whole within a limit, or part by part", async () => {
    expect(await box.files.readText("x")).toBe("abcdef");
    await expect(box.files.read("x", { maxBytes: 5 })).rejects.toMatchObject({ code: "ResourceExhausted" });
    const seen: number[] = [];
    for await (const chunk of box.files.stream("x")) seen.push(chunk.length);
    expect(seen).toEqual([3, 3]);
  });

  it("are committed only after all of their content", async () => {
    async function* content() {
      yield text("ab");
      yield text("cd");
    }
    await box.files.write("x", content());
    expect(input).toBe("<start>abcd<commit>");
  });

  it("are watched until the caller closes the watch or aborts", async () => {
    const watch = await box.files.watch("src", { recursive: true });
    const seen: string[] = [];
    for await (const { type, path, isDirectory } of watch) {
      seen.push(`${type} ${path} ${isDirectory}`);
      if (seen.length === 3) void watch.close();
    }
    expect(seen).toEqual(["create src true true", "lost . true", "rename b false"]);
    expect(cancelled).toBe(1);
    const control = new AbortController();
    const aborted = await box.files.watch("src", { signal: control.signal });
    const reason = new Error("changed my mind");
    const read = async () => {
      for await (const { type } of aborted) if (type === "rename") control.abort(reason);
    };
    await expect(read()).rejects.toBe(reason);
    isWatchable = false;
    await expect(box.files.watch("x")).rejects.toMatchObject({
      code: "FailedPrecondition",
      message: "x false: not a directory",
    });
  });
});
