/** How a request ended. */
export interface Outcome {
  /** HTTP status, or the name of a gRPC code. Absent without a response. */
  readonly status?: number | string;
  /** Why the request failed or its response is invalid, such as ECONNREFUSED. */
  readonly error?: string;
  /** Size of the response body. */
  readonly bytes: number;
  /** Whether the request succeeded. */
  readonly isExpected: boolean;
}

/** A request on its way. */
export interface SentRequest {
  /** Gives up the request. `onEnd` may still be called. */
  abort(): void;
}

/** Sends the requests of a load. */
export interface Requester {
  /** Maximum requests at the same time. More of them wait in the requester for a connection. */
  readonly capacity: number;
  /** Sends a request. `onEnd` is called once when it has ended, never before `send` returns. */
  send(onEnd: (outcome: Outcome) => void): SentRequest;
  /** Closes the connections. */
  close(): Promise<void>;
}

/** Whether a status is that of a successful response. */
export const isExpectedStatus = (status: number, expected: readonly number[] | undefined): boolean =>
  expected === undefined ? status >= 200 && status < 400 : expected.includes(status);

/** A short name of an error, for counting. That of a canceled stream is why its connection broke. */
export function causeOf(error: Error): string {
  if (error.cause instanceof Error) return causeOf(error.cause);
  const code: unknown = "code" in error ? error.code : undefined;
  return (typeof code === "string" && code !== "" ? code : error.name).slice(0, 64);
}
