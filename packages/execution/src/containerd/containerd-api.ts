import { connect } from "node:net";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import type { Client } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
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

/** Where containerd listens unless it is told otherwise. */
export const defaultContainerdSocket = "/run/containerd/containerd.sock";

/**
 * A client of containerd's gRPC API on a Unix socket. Connects with the first call, and again after containerd restarted.
 * Everything that is made with `lease` stays until that lease is deleted, also when nothing refers to it yet.
 */
export function createContainerdApi(socket: string, namespace: string, lease?: string): ContainerdApi {
  const transport = createGrpcTransport({
    baseUrl: "http://containerd",
    nodeOptions: { createConnection: () => connect(socket) },
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

/** What a call that was under way fails with when containerd ends (Aborted, Internal), and later ones (Unavailable). */
const unreachable: readonly Code[] = [Code.Unavailable, Code.Aborted, Code.Internal, Code.Canceled];

/** Whether a call failed because containerd was not reached, or ended meanwhile. */
export const isUnreachable = (error: unknown): boolean => error instanceof ConnectError && unreachable.includes(error.code);

/** Does something to a thing that may be gone already: `undefined` then. */
export async function ifThere<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (failedWith(error, Code.NotFound)) return undefined;
    throw error;
  }
}
