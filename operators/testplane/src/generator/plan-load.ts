import type { DeepReadonly } from "@keelson/api-machinery";
import { parseDuration } from "@keelson/api-machinery/time";
import type { LoadGenerator } from "../api/load-generator.ts";
import { durationOf, type LoadPlan, type LoadStage, maxStreams } from "./load-plan.ts";

type Generator = DeepReadonly<LoadGenerator>;

const defaultTimeoutMs = 10_000;
const defaultConnections = { "HTTP/1.1": 100, "HTTP/2": 4 } as const;

/** The plan of each worker of a valid generator whose texts are rendered. */
export function planLoad(generator: Generator): readonly LoadPlan[] {
  const { url, method = "GET", headers = [], body, grpc, workers = 1 } = generator;
  const protocol = grpc === undefined ? (generator.protocol ?? "HTTP/1.1") : "HTTP/2";
  const { insecureSkipTLSVerify: insecureSkipTlsVerify = false, expectedStatusCodes } = generator;
  const plan = {
    model: modelOf(generator),
    stages: stagesOf(generator),
    request: {
      ...{ url, method, protocol, insecureSkipTlsVerify },
      headers: Object.fromEntries(headers.map(({ name, value }) => [name, value])),
      ...(body === undefined ? {} : { body }),
      ...(expectedStatusCodes === undefined ? {} : { expectedStatusCodes }),
      ...(grpc === undefined
        ? {}
        : { grpc: { ...grpc, message: grpc.message ?? {}, expectedCodes: grpc.expectedCodes ?? ["OK"] } }),
    },
    timeoutMs: timeoutOf(generator),
    thinkTimeMs: generator.thinkTime === undefined ? 0 : parseDuration(generator.thinkTime),
    workers,
  };
  const maxUsers = Math.ceil(Math.max(...plan.stages.flatMap(({ from, to }) => [from, to])) / workers);
  const needed = plan.model === "closed" ? connectionsOf(maxUsers, protocol) : defaultConnections[protocol];
  const maxConnections = generator.maxConnections ?? needed;
  return Array.from({ length: workers }, (_, worker) => ({ ...plan, maxConnections, worker }));
}

/** Connections on which no user waits for another one. */
const connectionsOf = (users: number, protocol: keyof typeof defaultConnections): number =>
  protocol === "HTTP/2" ? Math.max(Math.ceil(users / maxStreams), defaultConnections[protocol]) : Math.max(users, 1);

/** How long the load of a valid generator lasts at most, with the requests under way at its end. */
export const maxLoadMs = (generator: Generator): number =>
  durationOf({ stages: stagesOf(generator) }) + 2 * timeoutOf(generator);

/** How long the stages of a valid generator last. */
export const loadMs = (generator: Generator): number => durationOf({ stages: stagesOf(generator) });

const timeoutOf = ({ requestTimeout }: Generator): number =>
  requestTimeout === undefined ? defaultTimeoutMs : parseDuration(requestTimeout);

/** Whether the generator has an open or a closed model. */
function modelOf({ rate, stages = [] }: Generator): LoadPlan["model"] {
  return rate !== undefined || stages.some((stage) => stage.rate !== undefined) ? "open" : "closed";
}

function stagesOf(generator: Generator): readonly LoadStage[] {
  const { rate, users, duration, stages } = generator;
  const start = rate ?? users ?? 0;
  if (stages === undefined) return [{ durationMs: parseDuration(duration ?? "0s"), from: start, to: start }];
  let from = start;
  return stages.map((stage) => {
    const to = stage.rate ?? stage.users ?? 0;
    const one = { durationMs: parseDuration(stage.duration), from, to };
    from = to;
    return one;
  });
}
