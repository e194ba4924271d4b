import { apiVersionOf, deepFreeze, draft, jsonEquals, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { mergePatch } from "@keelson/api-machinery/patch";
import { formatTime } from "@keelson/api-machinery/time";
import type { Decision, Cached, Write } from "../write.ts";

interface Stored extends KubernetesObject {
  spec?: unknown;
  status?: unknown;
}

/** An in-memory API server for decision tests: it applies writes over many steps, without watches and with time set by the test. */
export class World {
  /** Milliseconds from the epoch. */
  now = Date.UTC(2026, 0, 1);
  /** Events so far, as `reason: note`. */
  readonly events: string[] = [];
  readonly #objects = new Map<string, { readonly type: ResourceType; readonly object: Cached }>();
  #writes = 0;

  /** Stores an object with uid, resource version, generation and creation time, as a server would. */
  create<T extends KubernetesObject>(type: ResourceType<T>, body: object): Cached<T> {
    const object = draft(body) as Stored;
    this.#writes += 1;
    const { generateName, ...metadata } = object.metadata;
    const name = metadata.name ?? `${generateName ?? ""}${String(this.#writes).padStart(5, "0")}`;
    const stored = {
      ...object,
      apiVersion: apiVersionOf(type),
      kind: type.kind,
      metadata: {
        namespace: "default",
        ...metadata,
        name,
        uid: `uid-${this.#writes}`,
        generation: 1,
        creationTimestamp: formatTime(this.now),
      },
    };
    return this.#put(type, stored) as Cached<T>;
  }

  get<T extends KubernetesObject>(type: ResourceType<T>, name: string): Cached<T> {
    const entry = this.#objects.get(`${type.kind}/${name}`);
    if (entry === undefined) throw new Error(`${type.kind} ${name} not found`);
    return entry.object as Cached<T>;
  }

  list<T extends KubernetesObject>(type: ResourceType<T>): readonly Cached<T>[] {
    return [...this.#objects.values()]
      .filter((entry) => entry.type.kind === type.kind)
      .map(({ object }) => object as Cached<T>);
  }

  /** Applies a user's merge patch. */
  change(type: ResourceType, name: string, body: object): void {
    const before = this.get(type, name) as unknown as Stored;
    const after = mergePatch(before, body) as Stored;
    const generation = (before.metadata.generation ?? 0) + (jsonEquals(before.spec, after.spec) ? 0 : 1);
    this.#put(type, { ...after, metadata: { ...after.metadata, generation } });
    this.#reap(type, name);
  }

  /** Marks an object as deleted and removes it once no finalizer holds it. `graceful`: it stays until {@link World.end}. */
  delete(type: ResourceType, name: string, graceful = false): void {
    const object = this.get(type, name);
    const { deletionTimestamp = formatTime(this.now) } = object.metadata;
    const gracePeriod = graceful ? { deletionGracePeriodSeconds: 30 } : {};
    this.#put(type, { ...object, metadata: { ...object.metadata, deletionTimestamp, ...gracePeriod } } as Stored);
    this.#reap(type, name);
  }

  /** Ends the grace period of a Pod that is being deleted. */
  end(name: string): void {
    this.change(Pod, name, { metadata: { deletionGracePeriodSeconds: null } });
  }

  /** Sets a Pod's phase and its Ready condition. */
  setPod(name: string, phase: NonNullable<PodObject["status"]>["phase"], ready = false, status: object = {}): void {
    const lastTransitionTime = formatTime(this.now);
    const conditions = [{ type: "Ready", status: ready ? "True" : "False", lastTransitionTime }];
    this.change(Pod, name, { status: { phase, conditions, ...status } });
  }

  /** Performs writes. With `graceful`, deleted Pods terminate until {@link World.end}. */
  perform(writes: readonly Write[], graceful = false): void {
    for (const write of writes) {
      switch (write.kind) {
        case "event":
          this.events.push(`${write.reason}: ${write.note}`);
          break;
        case "create": {
          const { name } = write.object.metadata;
          const exists = name !== undefined && this.#objects.has(`${write.type.kind}/${name}`);
          if (exists && !write.mayExist) throw new Error(`${write.type.kind} ${name} already exists`);
          if (!exists) this.create(write.type, write.object);
          break;
        }
        case "delete": {
          const { name = "" } = write.object.metadata;
          if (this.#objects.has(`${write.type.kind}/${name}`)) this.delete(write.type, name, graceful && write.type === Pod);
          break;
        }
        case "patch":
          if (this.#objects.has(`${write.type.kind}/${write.object.metadata.name}`)) {
            this.change(write.type, write.object.metadata.name ?? "", write.body);
          }
          break;
        default: {
          const { name = "", resourceVersion } = write.object.metadata;
          const before = this.get(write.type, name);
          if (before.metadata.resourceVersion !== resourceVersion) throw new Error(`${write.type.kind} ${name} is stale`);
          const after = write.kind === "status" ? { ...before, status: (write.object as Stored).status } : write.object;
          this.#put(write.type, draft(after));
        }
      }
    }
  }

  /** Decides and performs until nothing is left to write. Returns the last decision. */
  settle(decide: () => Decision, graceful = false): Decision {
    for (let step = 0; step < 200; step++) {
      const decision = decide();
      if (decision.writes.every(({ kind }) => kind === "event")) return decision;
      this.perform(decision.writes, graceful);
    }
    throw new Error("the decisions do not settle");
  }

  #put(type: ResourceType, object: Stored): Cached {
    this.#writes += 1;
    const stored = deepFreeze({ ...object, metadata: { ...object.metadata, resourceVersion: String(this.#writes) } }) as Cached;
    this.#objects.set(`${type.kind}/${object.metadata.name}`, { type, object: stored });
    return stored;
  }

  #reap(type: ResourceType, name: string): void {
    const { metadata } = this.get(type, name);
    const isHeld = (metadata.finalizers ?? []).length > 0 || (metadata.deletionGracePeriodSeconds ?? 0) > 0;
    if (metadata.deletionTimestamp !== undefined && !isHeld) this.#objects.delete(`${type.kind}/${name}`);
  }
}
