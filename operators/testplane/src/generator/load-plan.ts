/** What one worker of the load generator does. Passed to its Pod as JSON. */
export interface LoadPlan {
  /** `open`: requests start at given times, whatever the target does. `closed`: users wait for the response before the next request. */
  readonly model: "open" | "closed";
  /** Requests per second (open) or users (closed) over time. */
  readonly stages: readonly LoadStage[];
  readonly request: RequestPlan;
  /** Maximum connections of the worker. */
  readonly maxConnections: number;
  /** Maximum duration of a request, from sending it to the end of its response. */
  readonly timeoutMs: number;
  /** Pause of a user after a response. */
  readonly thinkTimeMs: number;
  /** Zero-based number of the worker. */
  readonly worker: number;
  /** Number of workers. The stages are those of all of them together. */
  readonly workers: number;
}

/** Environment variable with the plan of a worker. */
export const planVariable = "KEELSON_LOAD";

/** Maximum requests of an HTTP/2 connection at the same time. */
export const maxStreams = 100;

/** A period in which the load changes linearly. */
export interface LoadStage {
  readonly durationMs: number;
  readonly from: number;
  readonly to: number;
}

/** A gRPC method and its request message. */
export interface GrpcPlan {
  /** Full name, such as `shop.v1.Carts`. */
  readonly service: string;
  readonly method: string;
  /** The message as JSON. */
  readonly message: unknown;
  /** A `google.protobuf.FileDescriptorSet` in base64. Without it, the server is asked by reflection. */
  readonly descriptorSet?: string;
  /** Names of the codes that count as success. */
  readonly expectedCodes: readonly string[];
}

/** The request. */
export interface RequestPlan {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly protocol: "HTTP/1.1" | "HTTP/2";
  readonly insecureSkipTlsVerify: boolean;
  /** Statuses of a successful response. Default: 200 to 399. */
  readonly expectedStatusCodes?: readonly number[];
  /** Calls this method over HTTP/2 instead. `url` is the server's, and `headers` are the metadata. */
  readonly grpc?: GrpcPlan;
}

/** Duration of all stages. */
export const durationOf = ({ stages }: Pick<LoadPlan, "stages">): number =>
  stages.reduce((total, { durationMs }) => total + durationMs, 0);

/** The load at a time: requests per second or users. 0 after the last stage. */
export function levelAt({ stages }: Pick<LoadPlan, "stages">, ms: number): number {
  let start = 0;
  for (const { durationMs, from, to } of stages) {
    if (ms < start + durationMs) return from + ((to - from) * (ms - start)) / durationMs;
    start += durationMs;
  }
  return 0;
}
