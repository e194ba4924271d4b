import { connect } from "node:net";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import type { Client } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { GrpcSessions } from "@keelson/sandbox/grpc";
import { Containers } from "./generated/containerd/services/containers/v1/containers_pb.ts";
import { Content } from "./generated/containerd/services/content/v1/content_pb.ts";
import { Diff } from "./generated/containerd/services/diff/v1/diff_pb.ts";
import { Images } from "./generated/containerd/services/images/v1/images_pb.ts";
import { Leases } from "./generated/containerd/services/leases/v1/leases_pb.ts";
import { Namespaces } from "./generated/containerd/services/namespaces/v1/namespace_pb.ts";
import { Snapshots } from "./generated/containerd/services/snapshots/v1/snapshots_pb.ts";
import { Tasks } from "./generated/containerd/services/tasks/v1/tasks_pb.ts";

/** containerd's services, called in one namespace. */
export interface ContainerdApi {
  readonly namespace: string;
  readonly namespaces: Client<typeof Namespaces>;
  readonly containers: Client<typeof Containers>;
  readonly tasks: Client<typeof Tasks>;
  readonly snapshots: Client<typeof Snapshots>;
  readonly images: Client<typeof Images>;
  readonly content: Client<typeof Content>;
  readonly diff: Client<typeof Diff>;
  readonly leases: Client<typeof Leases>;
}

/** containerd's default socket. */
export const defaultContainerdSocket = "/run/containerd/containerd.sock";

/**
 * Creates a client of containerd's gRPC API on a Unix socket. Connects on the first call, and reconnects after containerd restarts.
 * Resources created under `lease` are kept until the lease is deleted, even if nothing refers to them yet.
 */
export function createContainerdApi(socket: string, namespace: string, lease?: string): ContainerdApi {
  const baseUrl = "http://containerd";
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager: new GrpcSessions(baseUrl, {}, { createConnection: () => connect(socket) }),
    interceptors: [
      (next) => (request) => {
        request.header.set("containerd-namespace", namespace);
        if (lease !== undefined) request.header.set("containerd-lease", lease);
        return next(request);
      },
    ],
  });
  return {
    namespace,
    namespaces: createClient(Namespaces, transport),
    containers: createClient(Containers, transport),
    tasks: createClient(Tasks, transport),
    snapshots: createClient(Snapshots, transport),
    images: createClient(Images, transport),
    content: createClient(Content, transport),
    diff: createClient(Diff, transport),
    leases: createClient(Leases, transport),
  };
}

/** Whether a call failed with this code. */
export const failedWith = (error: unknown, code: Code): boolean => error instanceof ConnectError && error.code === code;

/** Codes of a call in flight when containerd terminates (Aborted, Internal), and of later calls (Unavailable). */
const unreachableCodes: readonly Code[] = [Code.Unavailable, Code.Aborted, Code.Internal, Code.Canceled];

/** Whether a call failed because containerd is unreachable or terminated during the call. */
export const isUnreachable = (error: unknown): boolean =>
  error instanceof ConnectError && unreachableCodes.includes(error.code);

/** Awaits a call and returns `undefined` if it fails with NotFound. */
export async function ignoreNotFound<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (failedWith(error, Code.NotFound)) return undefined;
    throw error;
  }
}
