import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import type { Clock } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";
import { execToEnd } from "../container/exec-process.ts";
import { expandWords } from "../container/expand.ts";
import { grpcHealth } from "./grpc-health.ts";
import type { ContainerView, ProbeView } from "../pod/pod-view.ts";

/** The target of a probe or hook. */
export interface ProbeTarget {
  readonly program: Program;
  readonly container: ContainerView;
  readonly podIP: string;
  readonly clock: Clock;
}

/** Runs a probe or hook once. Returns the problem, or `undefined` on success. Never throws. */
export async function runProbe(probe: ProbeView, target: ProbeTarget, timeoutMs: number): Promise<string | undefined> {
  const { podIP, container, clock } = target;
  if (probe.exec !== undefined) {
    const command = probeCommand(probe.exec.command ?? [], target);
    if (typeof command === "string") return command;
    const result = await execToEnd(target.program, command, { timeoutMs, clock });
    if (result.isTimeout) return `command timed out: ${JSON.stringify(command.join(" "))} timed out after ${timeoutMs / 1000}s`;
    return result.exitCode === 0 ? undefined : result.output.trim() || `command ended with exit code ${result.exitCode}`;
  }
  if (probe.httpGet !== undefined) {
    const { host = podIP, path = "/", scheme = "HTTP", httpHeaders = [] } = probe.httpGet;
    const port = portNumber(container, probe.httpGet.port);
    if (port === undefined) return unknownPort(container, probe.httpGet.port);
    const url = `${scheme.toLowerCase()}://${host}:${port}${path.startsWith("/") ? path : `/${path}`}`;
    const headers = Object.fromEntries(httpHeaders.map(({ name, value }) => [name, value]));
    return httpGet(url, headers, timeoutMs, clock);
  }
  if (probe.tcpSocket !== undefined) {
    const port = portNumber(container, probe.tcpSocket.port);
    if (port === undefined) return unknownPort(container, probe.tcpSocket.port);
    return tcpConnect(probe.tcpSocket.host ?? podIP, port, timeoutMs, clock);
  }
  const sleepSeconds = (probe as { readonly sleep?: { readonly seconds?: number } }).sleep?.seconds;
  if (sleepSeconds !== undefined) {
    await new Promise<void>(
      (resolve) => void clock.setTimer(Math.min(sleepSeconds * 1000, timeoutMs), resolve, { background: true }),
    );
    return undefined;
  }
  if (probe.grpc !== undefined) {
    const { port, service = "" } = probe.grpc;
    return grpcHealth({ host: podIP, port, service }, timeoutMs, clock);
  }
  return "probe must set one of exec, httpGet, tcpSocket, grpc";
}

/** The expanded command, or why it cannot be expanded. */
function probeCommand(words: readonly string[], { program }: ProbeTarget): readonly string[] | string {
  try {
    return expandWords(words, program.spec.env ?? {});
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function unknownPort(container: ContainerView, port: number | string): string {
  return `port ${JSON.stringify(port)} not found in container ${container.name}`;
}

function portNumber(container: ContainerView, port: number | string): number | undefined {
  if (typeof port === "number") return port;
  if (/^\d+$/.test(port)) return Number(port);
  return container.ports?.find(({ name }) => name === port)?.containerPort;
}

/** The number of informational responses (1xx) that a probe accepts, as in Go's HTTP client. */
const maxInformational = 5;

function httpGet(
  url: string,
  headers: Readonly<Record<string, string>>,
  timeoutMs: number,
  clock: Clock,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const isTls = url.startsWith("https:");
    const options = {
      method: "GET",
      headers: { "user-agent": "kube-probe/1.35", accept: "*/*", ...headers },
      agent: false as const,
    };
    let timer: { cancel(): void } | undefined;
    const done = (problem: string | undefined): void => {
      timer?.cancel();
      resolve(problem);
      request.destroy();
    };
    let request: ReturnType<typeof httpRequest>;
    try {
      request = isTls ? httpsRequest(url, { ...options, rejectUnauthorized: false }) : httpRequest(url, options);
    } catch (error) {
      resolve(error instanceof Error ? error.message : String(error));
      return;
    }
    timer = clock.setTimer(timeoutMs, () =>
      done(`Get ${JSON.stringify(url)}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)`),
    );
    // Node.js reads any number of them, as fast as they arrive.
    let informational = 0;
    request.on("information", () => {
      informational++;
      if (informational > maxInformational) done(`Get ${JSON.stringify(url)}: too many 1xx informational responses`);
    });
    request.on("response", (response) => {
      const { statusCode = 0 } = response;
      response.resume();
      done(statusCode >= 200 && statusCode < 400 ? undefined : `HTTP probe failed with statuscode: ${statusCode}`);
    });
    request.on("error", (error) => done(`Get ${JSON.stringify(url)}: ${error.message}`));
    request.end();
  });
}

function tcpConnect(host: string, port: number, timeoutMs: number, clock: Clock): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const done = (problem: string | undefined): void => {
      timer.cancel();
      socket.destroy();
      resolve(problem);
    };
    const timer = clock.setTimer(timeoutMs, () => done(`dial tcp ${host}:${port}: i/o timeout`));
    socket.on("connect", () => done(undefined));
    socket.on("error", (error) => done(`dial tcp ${host}:${port}: ${error.message}`));
  });
}
