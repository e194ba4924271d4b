import { request as httpRequest } from "node:http";
import { connect as connectHttp2, constants } from "node:http2";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import { sleep, type Clock } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";
import type { CheckResult } from "./check-state.ts";
import { portOf } from "./task-ports.ts";
import type { CheckTarget, TaskCheck } from "./task-checks.ts";

/** Programs are expected on the robot's loopback interface. */
const host = "127.0.0.1";

const passing = (message: string): CheckResult => ({ status: "passing", message });
const critical = (message: string): CheckResult => ({ status: "critical", message });

/** Runs a check of a program once. Never rejects: what cannot be checked is critical. */
export async function runCheck(
  { target, timeoutMs }: Pick<TaskCheck, "target" | "timeoutMs">,
  program: Pick<Program, "exec" | "spec">,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<CheckResult> {
  const done = new AbortController();
  const timeout = sleep(clock, timeoutMs, AbortSignal.any([done.signal, signal]))
    .then(() => critical(`no response within ${timeoutMs / 1000} s`))
    .catch(() => critical("the check was cancelled"));
  try {
    return await Promise.race([answer(target, program, done.signal), timeout]);
  } catch (error) {
    return critical(error instanceof Error ? error.message : String(error));
  } finally {
    done.abort();
  }
}

async function answer(target: CheckTarget, program: Pick<Program, "exec" | "spec">, signal: AbortSignal): Promise<CheckResult> {
  if (target.type === "script") return await runScript(target.command, program, signal);
  const port = portOf(target.port, program.spec.env ?? {});
  if (port === undefined) return critical(`port ${JSON.stringify(target.port)} is not a port of spec.resources.networks`);
  switch (target.type) {
    case "http":
      return await probeHttp(target, port, signal);
    case "tcp":
      return await probeTcp(port, signal);
    case "grpc":
      return await probeGrpc(port, signal);
  }
}

/** As in Consul: 2xx passes, 429 (too many requests) is a warning. Redirects are not followed. */
function probeHttp(
  { path, isSecure }: CheckTarget & { readonly type: "http" },
  port: number,
  signal: AbortSignal,
): Promise<CheckResult> {
  return new Promise((resolve, reject) => {
    const request = (isSecure ? httpsRequest : httpRequest)(
      // A certificate names the robot at best, not its loopback address.
      { host, port, path, signal, agent: false, headers: { "user-agent": "keelson-robots" }, rejectUnauthorized: false },
      (response) => {
        const { statusCode = 0 } = response;
        response.destroy();
        const message = `status ${statusCode}`;
        if (statusCode >= 200 && statusCode < 300) resolve(passing(message));
        else resolve(statusCode === 429 ? { status: "warning", message } : critical(message));
      },
    );
    request.on("error", reject);
    request.end();
  });
}

function probeTcp(port: number, signal: AbortSignal): Promise<CheckResult> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, signal });
    socket.once("connect", () => {
      socket.destroy();
      resolve(passing("connected"));
    });
    socket.on("error", reject);
  });
}

/** An empty message in the framing of gRPC: the health of the whole server. */
const emptyRequest = Buffer.alloc(5);
/** `HealthCheckResponse{status: SERVING}`. */
const serving = Buffer.from([0, 0, 0, 0, 2, 8, 1]);

/** The gRPC health checking protocol, `grpc.health.v1.Health/Check`, without TLS. */
function probeGrpc(port: number, signal: AbortSignal): Promise<CheckResult> {
  return new Promise((resolve, reject) => {
    const session = connectHttp2(`http://${host}:${port}`);
    signal.addEventListener("abort", () => session.destroy(), { once: true });
    session.on("error", reject);
    const stream = session.request({
      [constants.HTTP2_HEADER_METHOD]: "POST",
      [constants.HTTP2_HEADER_PATH]: "/grpc.health.v1.Health/Check",
      [constants.HTTP2_HEADER_CONTENT_TYPE]: "application/grpc",
      te: "trailers",
    });
    let received = Buffer.alloc(0);
    stream.on("data", (chunk: Buffer) => {
      // More than the answer is not one.
      received = Buffer.concat([received, chunk]).subarray(0, serving.length + 1);
    });
    stream.on("error", reject);
    stream.on("close", () => {
      session.destroy();
      resolve(received.equals(serving) ? passing("serving") : critical("not serving"));
    });
    stream.end(emptyRequest);
  });
}

/** As in Consul: 0 passes, 1 is a warning. */
async function runScript(
  command: readonly [string, ...string[]],
  program: Pick<Program, "exec">,
  signal: AbortSignal,
): Promise<CheckResult> {
  const session = await program.exec({ command, isContained: true });
  signal.addEventListener("abort", () => void session.kill().catch(() => {}), { once: true });
  if (signal.aborted) await session.kill().catch(() => {});
  session.stdin.end();
  session.stdout.resume();
  session.stderr?.resume();
  const { exitCode } = await session.exited();
  const message = `exit code ${exitCode}`;
  if (exitCode === 0) return passing(message);
  return exitCode === 1 ? { status: "warning", message } : critical(message);
}
