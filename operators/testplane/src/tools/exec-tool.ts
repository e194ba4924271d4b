import { type DeepReadonly, isJsonObject } from "@keelson/api-machinery";
import type { HttpTransportOptions } from "@keelson/client";
import { WebSocket } from "ws";
import type { ExecAction } from "../api/tool-actions.ts";
import type { ChosenPod } from "./choose-pod.ts";
import { OutputTail } from "./output-tail.ts";
import { ToolError } from "./tool-error.ts";
import type { ToolResult } from "./tool-report.ts";

/** The remote command protocol (KEP-4006). Only version 5 can close the input. */
const protocols = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const channels = { stdin: 0, stdout: 1, stderr: 2, status: 3, close: 255 } as const;

/** Inputs of {@link execInPod}. */
export interface ExecRun {
  readonly connection: Pick<HttpTransportOptions, "server" | "ca" | "credentials" | "insecureSkipTlsVerify">;
  readonly pod: ChosenPod;
  readonly exec: DeepReadonly<ExecAction>;
  readonly signal: AbortSignal;
}

/**
 * Runs a program in a container, once.
 *
 * **Errors**: a {@link ToolError} if the API server refuses it, the program cannot be started, or the connection breaks.
 */
export async function execInPod({ connection, pod, exec, signal }: ExecRun): Promise<ToolResult> {
  const credentials = await connection.credentials?.get(signal);
  const socket = new WebSocket(urlOf(connection.server, pod, exec), protocols, {
    ...(connection.ca === undefined ? {} : { ca: connection.ca }),
    ...(connection.insecureSkipTlsVerify === true ? { rejectUnauthorized: false } : {}),
    headers: credentials?.token === undefined ? {} : { authorization: `Bearer ${credentials.token}` },
  });
  const stop = (): void => socket.terminate();
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await resultOf(socket, exec.stdin);
  } finally {
    signal.removeEventListener("abort", stop);
    socket.terminate();
  }
}

function urlOf(server: string, { namespace, name, containers }: ChosenPod, exec: DeepReadonly<ExecAction>): string {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/exec`;
  const url = new URL(`${server.replace(/^http/, "ws")}${path}`);
  for (const part of exec.command) url.searchParams.append("command", part);
  url.searchParams.set("container", exec.container ?? containers[0] ?? "");
  for (const stream of ["stdout", "stderr", ...(exec.stdin === undefined ? [] : ["stdin"])])
    url.searchParams.set(stream, "true");
  return url.href;
}

function resultOf(socket: WebSocket, stdin: string | undefined): Promise<ToolResult> {
  const outputs = { [channels.stdout]: new OutputTail(), [channels.stderr]: new OutputTail() } as const;
  let status: string | undefined;
  return new Promise((resolve, reject) => {
    socket.on("unexpected-response", (_, response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk)).on("error", () => {});
      response.on("close", () => reject(refusal(response.statusCode ?? 0, Buffer.concat(chunks).toString("utf8"))));
    });
    socket.on("error", (cause) => reject(new ToolError("ExecFailed", `the connection failed: ${cause.message}`, { cause })));
    socket.on("open", () => {
      if (stdin === undefined) return;
      socket.send(Buffer.concat([Buffer.from([channels.stdin]), Buffer.from(stdin)]));
      if (socket.protocol === protocols[0]) socket.send(Buffer.from([channels.close, channels.stdin]));
    });
    socket.on("message", (data: Buffer) => {
      const channel = data[0];
      if (channel === channels.stdout || channel === channels.stderr) outputs[channel].add(data.subarray(1));
      else if (channel === channels.status) status = data.subarray(1).toString("utf8");
    });
    socket.on("close", () => {
      const exitCode = status === undefined ? undefined : exitCodeOf(status);
      const [stdout, stderr] = [outputs[channels.stdout], outputs[channels.stderr]];
      if (typeof exitCode === "number") resolve({ exitCode, ...stdout.result(), stderr: stderr.text() });
      else reject(new ToolError("ExecFailed", exitCode ?? "the connection closed before the program exited"));
    });
  });
}

/** The exit code in the final Status, or why the program did not run. */
function exitCodeOf(text: string): number | string {
  const status = parsed(text);
  if (status?.["status"] === "Success") return 0;
  const details = status?.["details"];
  const causes: unknown = isJsonObject(details) ? details["causes"] : undefined;
  const code = (Array.isArray(causes) ? causes : []).find(
    (cause: unknown) => isJsonObject(cause) && cause["reason"] === "ExitCode",
  ) as { readonly message?: unknown } | undefined;
  const exitCode = Number(code?.message ?? Number.NaN);
  return Number.isInteger(exitCode) ? exitCode : String(status?.["message"] ?? text);
}

function refusal(code: number, body: string): ToolError {
  const message = parsed(body)?.["message"];
  const text = typeof message === "string" ? message : `the API server responded with HTTP ${code}`;
  return new ToolError(code === 403 ? "Forbidden" : "ExecFailed", text);
}

function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
