import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { stringify } from "yaml";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { startKeelson } from "../testing/keelson-process.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const folder = temporaryFolder();
let keelson: TestKeelson;

/** Echoes each line in upper case; closes the connection after the line `end`. */
const shout = `
const net = require("node:net");
net.createServer({ allowHalfOpen: true }, (socket) => {
  socket.on("data", (data) => socket.write(data.toString().toUpperCase()));
  socket.on("end", () => socket.end("bye"));
}).listen(7000, process.env.KEELSON_POD_IP);
`;

beforeAll(async () => {
  keelson = await startTestKeelson(folder.path, "--only", "cluster");
  const file = join(folder.path, "pods.yaml");
  const pod = (name: string, container: object): object => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, labels: { app: name } },
    spec: { terminationGracePeriodSeconds: 1, containers: [{ name: "main", image: "none", ...container }] },
  });
  const pods = [
    pod("plain", { command: ["/bin/sh", "-c", "sleep 1000"] }),
    pod("shout", {
      command: [process.execPath, "-e", shout],
      ports: [{ name: "talk", containerPort: 7000 }],
      readinessProbe: { tcpSocket: { port: 7000 }, periodSeconds: 1 },
    }),
    pod("reads", { stdin: true, command: ["/bin/sh", "-c", "while read line; do echo got $line; done; echo over"] }),
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "shout" },
      spec: { selector: { app: "shout" }, ports: [{ port: 80, targetPort: "talk" }] },
    },
  ];
  writeFileSync(file, pods.map((each) => stringify(each)).join("---\n"));
  await keelson.kubectl("apply", "-f", file);
  await keelson.kubectl("wait", "pod", "--all", "--for=condition=Ready", "--timeout=45s");
});
afterAll(async () => {
  await keelson.kubectl("delete", "pod", "--all", "--timeout=40s");
  await keelson[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

interface Started {
  readonly child: ChildProcess;
  output(): string;
  /** Resolves once the text was printed. */
  printed(pattern: RegExp): Promise<RegExpMatchArray>;
  readonly exited: Promise<number | null>;
}

function start(command: string, args: readonly string[], env: Readonly<Record<string, string>>): Started {
  const child = spawn(command, args, { env: { ...process.env, KUBECONFIG: keelson.kubeconfig, ...env } });
  let text = "";
  const collect = (chunk: Buffer): void => void (text += chunk.toString());
  child.stdout.on("data", collect);
  child.stderr.on("data", collect);
  child.stdin.on("error", () => {});
  onTestFinished(() => void child.kill("SIGKILL"));
  return {
    child,
    output: () => text,
    async printed(pattern) {
      await expect.poll(() => text).toMatch(pattern);
      return text.match(pattern) ?? expect.fail("it was there a moment ago");
    },
    exited: once(child, "close").then(([code]: unknown[]) => (typeof code === "number" ? code : null)),
  };
}

/** Sends `text` to a port, half-closes the connection and resolves to the response. */
async function ask(port: number, text: string, host = "127.0.0.1"): Promise<string> {
  const socket = connect({ port, host, allowHalfOpen: true });
  let answer = "";
  socket.on("data", (data: Buffer) => void (answer += data.toString()));
  socket.write(text);
  socket.end();
  await once(socket, "close");
  return answer;
}

describe.each([
  ["WebSocket", { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: "true", KUBECTL_PORT_FORWARD_WEBSOCKETS: "true" }],
  ["SPDY", { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: "false", KUBECTL_PORT_FORWARD_WEBSOCKETS: "false" }],
])("by %s", (_name, env) => {
  const kubectl = (...args: string[]): Started => start("kubectl", args, env);

  test("exec returns output, errors and the exit status", async () => {
    const run = kubectl("exec", "plain", "--", "sh", "-c", "echo out; echo err >&2; exit 7");
    expect(await run.exited).toBe(7);
    expect(run.output()).toContain("out\n");
    expect(run.output()).toContain("err\n");
    expect(run.output()).toContain("exit code 7");
  });

  test("exec -i reads to the end of the input", async () => {
    const run = kubectl("exec", "-i", "plain", "--", "wc", "-c");
    run.child.stdin?.end("x".repeat(1_000_000));
    expect(await run.exited).toBe(0);
    expect(run.output().trim()).toBe("1000000");
  });

  test("exec -it provides a terminal with its size", async () => {
    // `script` provides kubectl with a terminal.
    const line = "stty rows 33 cols 101; kubectl exec -it plain -- sh -c 'sleep 1; test -t 0 && stty size; exit 4'";
    const run = start("script", ["--quiet", "--return", "--command", line, "/dev/null"], env);
    expect(await run.exited).toBe(4);
    expect(run.output()).toContain("33 101");
  });

  test("cp copies files and directories in both directions", async () => {
    const from = join(folder.path, `from-${env.KUBECTL_REMOTE_COMMAND_WEBSOCKETS}`);
    mkdirSync(join(from, "sub"), { recursive: true });
    const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * 31) % 251));
    writeFileSync(join(from, "sub", "data"), bytes);
    const inside = join(folder.path, `inside-${env.KUBECTL_REMOTE_COMMAND_WEBSOCKETS}`);
    expect(await kubectl("cp", from, `plain:${inside}`).exited).toBe(0);
    expect(readFileSync(join(inside, "sub", "data")).equals(bytes)).toBe(true);
    const back = `${inside}-back`;
    expect(await kubectl("cp", `plain:${inside}/sub/data`, back).exited).toBe(0);
    expect(readFileSync(back).equals(bytes)).toBe(true);
  });

  test("attach -i writes to the program and prints its output", async () => {
    const run = kubectl("attach", "-i", "reads");
    run.child.stdin?.write("one\n");
    await run.printed(/got one/);
    run.child.stdin?.write("two\n");
    await run.printed(/got two/);
    expect(run.output()).not.toContain("over");
  });

  test("run -i passes input until it ends and returns the exit status", async () => {
    const name = `sum-${env.KUBECTL_REMOTE_COMMAND_WEBSOCKETS}`;
    const script = "while read n; do sum=$((sum + n)); done; echo sum $sum; exit 5";
    const run = kubectl("run", name, "-i", "--image=none", "--restart=Never", "--command", "--", "/bin/sh", "-c", script);
    run.child.stdin?.end("1\n2\n39\n");
    expect(await run.exited).toBe(5);
    expect(run.output()).toContain("sum 42");
  });

  test("run -it provides a terminal of the client's size, and attach -it reconnects to it", async () => {
    const name = `term-${env.KUBECTL_REMOTE_COMMAND_WEBSOCKETS}`;
    const script =
      'until [ "$(stty size)" = "33 101" ]; do sleep 0.1; done; echo sized; while read x; do echo got $x; [ "$x" = end ] && exit 4; done';
    const inTerminal = (line: string): Started =>
      start("script", ["--quiet", "--return", "--command", `stty rows 33 cols 101; ${line}`, "/dev/null"], env);
    const run = inTerminal(`kubectl run ${name} -it --image=none --restart=Never --command -- sh -c '${script}'`);
    await run.printed(/sized/);
    run.child.stdin?.write("one\r");
    await run.printed(/got one/);
    run.child.kill("SIGKILL");
    await run.exited;
    const again = inTerminal(`kubectl attach -it ${name}`);
    await again.printed(/If you don't see a command prompt/);
    again.child.stdin?.write("two\r");
    await again.printed(/got two/);
    again.child.stdin?.write("end\r");
    await again.exited;
    expect(again.output()).not.toContain("got one");
    expect(await keelson.kubectl("logs", name)).toMatch(/got one\s[^]*got two\s[^]*got end/);
    const exitCode = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    await keelson.kubectl("wait", `pod/${name}`, `--for=${exitCode}=4`, "--timeout=45s");
  });

  test("port-forward carries many concurrent connections until they are closed", async () => {
    const forward = kubectl("port-forward", "pod/shout", ":7000");
    const port = Number((await forward.printed(/127\.0\.0\.1:(\d+) -> 7000/))[1]);
    const texts = Array.from({ length: 20 }, (_, index) => `hello ${index} ${"x".repeat(index * 10_000)}`);
    const answers = await Promise.all(texts.map((text) => ask(port, text)));
    expect(answers).toEqual(texts.map((text) => `${text.toUpperCase()}bye`));
  });

  test("port-forward reports a closed port and keeps forwarding", async () => {
    const forward = kubectl("port-forward", "pod/plain", ":9");
    const port = Number((await forward.printed(/127\.0\.0\.1:(\d+) -> 9/))[1]);
    expect(await ask(port, "hello").catch(() => "")).toBe("");
    await forward.printed(/error forwarding port 9 to pod plain.*ECONNREFUSED/);
  });

  test("port-forward resolves the port of a Service", async () => {
    const forward = kubectl("port-forward", "svc/shout", ":80");
    const port = Number((await forward.printed(/127\.0\.0\.1:(\d+) -> 7000/))[1]);
    expect(await ask(port, "service")).toBe("SERVICEbye");
  });
});

describe("keelson port-forward", () => {
  const forward = (...args: string[]): ReturnType<typeof startKeelson> => {
    const process = startKeelson(["port-forward", ...args], { env: { KUBECONFIG: keelson.kubeconfig } });
    onTestFinished(async () => void (await process.stop()));
    return process;
  };

  test("carries many concurrent connections next to a stalled one, and stops cleanly", async () => {
    const process = forward("shout", ":7000", ":talk");
    const [, first, second] = await process.printed(/127\.0\.0\.1:(\d+) -> 7000\n.*127\.0\.0\.1:(\d+) -> 7000/);
    const deaf = connect({ port: Number(first), host: "127.0.0.1" });
    deaf.on("error", () => {}).pause();
    onTestFinished(() => void deaf.destroy());
    // More than all buffers on the path hold.
    for (let written = 0; written < 32; written++) deaf.write("x".repeat(1 << 20));
    const texts = Array.from({ length: 20 }, (_, index) => `hello ${index} ${"x".repeat(index * 10_000)}`);
    const answers = await Promise.all(texts.map((text, index) => ask(Number(index % 2 ? first : second), text)));
    expect(answers).toEqual(texts.map((text) => `${text.toUpperCase()}bye`));
    expect(await process.stop()).toBe(0);
  });

  test("reports a closed port and keeps forwarding", async () => {
    const process = forward("pod/plain", ":9");
    const [, port] = await process.printed(/127\.0\.0\.1:(\d+) -> 9/);
    expect(await ask(Number(port), "hello").catch(() => "")).toBe("");
    await process.printed(/error forwarding port 9 to pod plain.*ECONNREFUSED/);
    expect(process.output()).toContain(`Handling connection for ${port}`);
  });

  test("resolves the port of a Service, and switches to another Pod once the first is gone", async () => {
    const process = forward("svc/shout", ":80", "--address", "127.0.0.2");
    const [, port] = await process.printed(/127\.0\.0\.2:(\d+) -> 7000/);
    expect(await ask(Number(port), "service", "127.0.0.2")).toBe("SERVICEbye");
    const spec = await keelson.kubectl("get", "pod", "shout", "-o", "json");
    const {
      spec: { containers },
    } = JSON.parse(spec) as { spec: { containers: { volumeMounts: unknown }[] } };
    const next = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "shout-2", labels: { app: "shout" } },
      // The mount of the token refers to a volume of the first Pod.
      spec: { containers: containers.map((container) => ({ ...container, volumeMounts: [] })) },
    };
    writeFileSync(join(folder.path, "next.yaml"), stringify(next));
    await keelson.kubectl("delete", "pod", "shout");
    await keelson.kubectl("apply", "-f", join(folder.path, "next.yaml"));
    await keelson.kubectl("wait", "pod", "shout-2", "--for=condition=Ready", "--timeout=45s");
    expect(await ask(Number(port), "again", "127.0.0.2")).toBe("AGAINbye");
  });

  test("rejects a missing target with a one-line error", async () => {
    const process = forward("nothing", "80");
    expect(await process.exited).toBe(1);
    expect(process.output()).toBe('keelson: pods "nothing" not found\n');
  });
});
