import { isStatusError, type ResourceType } from "@keelson/api-machinery";
import type { Cache, Request, Trigger } from "@keelson/controller";
import { mapKind } from "../watching/resource-mapper.ts";
import { type Reader, ReadRights } from "../watching/read-rights.ts";
import { type WatchTarget, WatchSet } from "../watching/watch-set.ts";
import { WebhookRunner } from "../webhooks/webhook-runner.ts";
import { isTarget, type Observation, type Target } from "../evaluation/target.ts";

/** Resources shared by the tests of one controller while it runs: dynamic watches, read rights and webhook calls. */
export interface RunningTests {
  readonly watches: WatchSet;
  readonly readRights: ReadRights;
  readonly webhooks: WebhookRunner;
}

/** The {@link RunningTests} of one controller. */
export interface RunningTestsOf {
  /** Starts and stops the resources with the controller. */
  readonly trigger: Trigger;
  /** **Errors**: throws until the trigger has started. */
  readonly current: RunningTests;
}

/** Creates a {@link RunningTestsOf} for one controller. */
export function createRunningTests(): RunningTestsOf {
  let running: RunningTests | undefined;
  return {
    trigger: {
      start({ client, clock, log, enqueue }) {
        const tests: RunningTests = {
          watches: new WatchSet({ client, clock, log, wake: enqueue }),
          readRights: new ReadRights({ client, clock }),
          webhooks: new WebhookRunner({ clock, wake: enqueue }),
        };
        running = tests;
        return () => {
          tests.watches.stop();
          tests.webhooks.stop();
        };
      },
    },
    get current() {
      if (running === undefined) throw new TypeError("the controller's trigger has not been started");
      return running;
    },
  };
}

/** A test that follows its targets. */
export interface FollowingTest {
  readonly request: Request;
  readonly reader: Reader;
  readonly targets: readonly Target[];
}

/**
 * Watches the targets of a test that it may read. Returns a function that reads what the watches know. **Errors**: rejects if the API
 * server cannot be reached.
 */
export async function followTargets(
  { watches, readRights }: RunningTests,
  cache: Cache,
  { request, reader, targets }: FollowingTest,
  signal: AbortSignal,
): Promise<(target: Target) => Observation> {
  const watched: WatchTarget[] = [];
  const refusals = new Map<string, string>();
  for (const target of targets) {
    const type = mapKind(cache, target.apiVersion, target.kind);
    if (type === undefined) continue;
    const watch = { type, namespace: namespaceOf(type, target), name: target.name };
    const denied = await readRights.denied(reader, watch, signal);
    if (denied === undefined) watched.push(watch);
    else refusals.set(refusalKey(type, target), denied);
  }
  watches.follow(request, watched);
  return (target) => {
    const type = mapKind(cache, target.apiVersion, target.kind);
    if (type === undefined) return { kind: "unknown-kind" };
    const refusal = refusals.get(refusalKey(type, target));
    if (refusal !== undefined) return { kind: "loading", error: refusal, isForbidden: true };
    const view = watches.view(type, namespaceOf(type, target));
    if (view === undefined) return { kind: "loading" };
    if (!view.isListed) {
      const { error } = view;
      if (error === undefined) return { kind: "loading" };
      return {
        kind: "loading",
        error: errorMessage(error),
        ...(isStatusError(error, "Forbidden") ? { isForbidden: true } : {}),
      };
    }
    const objects = target.name === undefined ? view.list() : [view.get(target.name)];
    const { apiVersion, kind } = target;
    return {
      kind: "known",
      // Items of a list have neither apiVersion nor kind, but assertions may name them.
      objects: objects.flatMap((object) =>
        object !== undefined && isTarget(target, object.metadata) ? [{ ...object, apiVersion, kind }] : [],
      ),
      hasSeen: (resourceVersion) => view.hasSeen(resourceVersion),
    };
  };
}

const namespaceOf = (type: ResourceType, target: Target): string | undefined =>
  type.scope === "Cluster" ? undefined : target.namespace;

const refusalKey = (type: ResourceType, target: Target): string =>
  JSON.stringify([type.group, type.plural, namespaceOf(type, target), target.name]);

/** Human-readable message of an error. */
export function errorMessage(error: unknown): string {
  if (isStatusError(error)) return `${error.reason || "error"}: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}
