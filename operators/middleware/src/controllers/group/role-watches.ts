import type { Request } from "@keelson/controller";
import type { AgentClient } from "../../agent/agent-client.ts";
import type { AgentAccess } from "../agent-access.ts";

/** A Pod whose agent is watched. */
export interface WatchedPod {
  readonly uid: string;
  readonly ip: string;
}

/** Watches on the agents of running Pods, one per Pod. */
export interface RoleWatches {
  /** Sets the Pods that are watched for a Group. */
  follow(group: Request, pods: readonly WatchedPod[], access: AgentAccess): void;
  /** Enqueues Groups whose roles may have changed. Returns a function that stops all watches. */
  start(enqueue: (group: Request) => void): () => void;
}

/** Creates {@link RoleWatches}. */
export function createRoleWatches(agents: AgentClient): RoleWatches {
  const groups = new Map<string, Map<string, AbortController>>();
  let enqueue: (group: Request) => void = () => undefined;
  return {
    follow(group, pods, access) {
      const id = `${group.namespace}/${group.name}`;
      const watches = groups.get(id) ?? new Map<string, AbortController>();
      const wanted = new Map(pods.map((pod) => [`${pod.uid}@${pod.ip}`, pod]));
      for (const [key, watch] of watches) {
        if (wanted.has(key)) continue;
        watch.abort();
        watches.delete(key);
      }
      for (const [key, { ip }] of wanted) {
        if (watches.has(key)) continue;
        const watch = new AbortController();
        watches.set(key, watch);
        agents.watch(ip, access, () => enqueue(group), watch.signal);
      }
      if (watches.size > 0) groups.set(id, watches);
      else groups.delete(id);
    },
    start(listener) {
      enqueue = listener;
      return () => {
        enqueue = () => undefined;
        for (const watches of groups.values()) for (const watch of watches.values()) watch.abort();
        groups.clear();
      };
    },
  };
}
