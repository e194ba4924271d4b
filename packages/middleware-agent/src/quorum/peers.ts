import { type Client, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import type { AgentIdentity } from "../tls/agent-identity.ts";
import { AgentSessions } from "../tls/agent-sessions.ts";
import { RequestLeaseRequestSchema, type RequestLeaseRequest, ToolInvoker } from "../agent2.generated.ts";
import { create } from "@bufbuild/protobuf";
import { isRenewal, type LeaseAnswer, type LeaseRequest } from "./lease.ts";

/** A request with the address of its sender. `hello` announces the address, and asks whether the first lease could be granted. */
export type PeerRequest = (LeaseRequest | (Pick<LeaseRequest, "from"> & { readonly kind: "hello" })) & {
  readonly host: string;
};

/** The agents of the other Pods. */
export interface Peers {
  /** Resolves to undefined if the agent does not respond in time. */
  request(host: string, request: PeerRequest): Promise<LeaseAnswer | undefined>;
  close(): void;
}

/** A late answer to a renewal counts from the time at which it was requested, so a slow machine need not lose its lease. */
const [answerTimeoutMs, renewalTimeoutMs] = [1_000, 3_000];

/** Connects to agents by gRPC. All agents of an App have the same port and authority. `token`: the current one. `identity`: undefined without TLS. */
export function createPeers(port: number, token: () => string, identity: () => AgentIdentity | undefined): Peers {
  const connections = new Map<string, { readonly tools: Client<typeof ToolInvoker>; readonly sessions: AgentSessions }>();
  const toolsOf = (host: string): Client<typeof ToolInvoker> => {
    const known = connections.get(host);
    if (known !== undefined) return known.tools;
    const sessions = new AgentSessions({ host, port, identity, pingIntervalMs: 2_000, pingTimeoutMs: 2_000 });
    const tools = createClient(ToolInvoker, createGrpcTransport({ baseUrl: sessions.authority, sessionManager: sessions }));
    connections.set(host, { tools, sessions });
    return tools;
  };
  return {
    async request(host, request) {
      try {
        const timeoutMs = isRenewal(request) ? renewalTimeoutMs : answerTimeoutMs;
        const headers = { authorization: `Bearer ${token()}` };
        const answer = await toolsOf(host).requestLease(encodeRequest(request), { headers, timeoutMs });
        return {
          isGranted: answer.granted,
          epoch: Number(answer.epoch),
          ...(answer.reason === "" ? {} : { reason: answer.reason }),
        };
      } catch {
        // Whatever the failure, the peer has not answered.
        return undefined;
      }
    },
    close() {
      for (const { sessions } of connections.values()) sessions.abort();
      connections.clear();
    },
  };
}

function encodeRequest(request: PeerRequest): RequestLeaseRequest {
  const { from, kind, host } = request;
  if (request.kind === "hello") return create(RequestLeaseRequestSchema, { from, kind, host });
  const { epoch, offset, over, isAppointed, successor } = request;
  return create(RequestLeaseRequestSchema, {
    ...{ from, kind, host },
    epoch: BigInt(epoch),
    offset: BigInt(offset),
    overHolder: over?.holder ?? "",
    overEpoch: BigInt(over?.epoch ?? 0),
    appointed: isAppointed ?? false,
    successor: successor ?? "",
  });
}

const isLeaseKind = (kind: string): kind is LeaseRequest["kind"] =>
  ["form", "poll", "stand", "renew", "release"].includes(kind);

/** Decodes a request. Undefined if its kind is not known. */
export function decodeRequest(message: RequestLeaseRequest): PeerRequest | undefined {
  const { from, kind, host, overHolder, successor } = message;
  if (kind === "hello") return { from, kind, host };
  if (!isLeaseKind(kind)) return undefined;
  return {
    ...{ from, kind, host },
    epoch: Number(message.epoch),
    offset: Number(message.offset),
    isAppointed: message.appointed,
    ...(overHolder === "" ? {} : { over: { holder: overHolder, epoch: Number(message.overEpoch) } }),
    ...(successor === "" ? {} : { successor }),
  };
}
