import type { Request } from "@keelson/controller";
import type { WatchedObject, WatchTarget } from "./watch-set.ts";

/** A test that follows objects of a kind. */
interface Follower {
  readonly request: Request;
  readonly names: ReadonlySet<string>;
  /** For targets without a name: whether one of them concerns the test. */
  readonly concerns: ((object: WatchedObject) => boolean) | undefined;
}

/** The tests that follow objects of a kind, indexed so that a change costs time for the tests that it concerns. */
export class Followers {
  readonly #followers = new Map<string, Follower>();
  readonly #byName = new Map<string, Map<string, Request>>();
  /** Those with targets without a name. */
  readonly #selecting = new Map<string, Follower>();

  get size(): number {
    return this.#followers.size;
  }

  /** Sets what a test follows. */
  set(id: string, request: Request, targets: readonly WatchTarget[]): void {
    const names = new Set(targets.flatMap(({ name }) => (name === undefined ? [] : [name])));
    const unnamed = targets.filter(({ name }) => name === undefined);
    const concerns =
      unnamed.length === 0
        ? undefined
        : (object: WatchedObject) => unnamed.some((target) => target.concerns === undefined || target.concerns(object));
    const follower: Follower = { request, names, concerns };
    for (const name of this.#followers.get(id)?.names ?? []) if (!names.has(name)) this.#forget(name, id);
    for (const name of names) {
      const followers = this.#byName.get(name);
      if (followers === undefined) this.#byName.set(name, new Map([[id, request]]));
      else followers.set(id, request);
    }
    if (concerns === undefined) this.#selecting.delete(id);
    else this.#selecting.set(id, follower);
    this.#followers.set(id, follower);
  }

  delete(id: string): void {
    for (const name of this.#followers.get(id)?.names ?? []) this.#forget(name, id);
    this.#followers.delete(id);
    this.#selecting.delete(id);
  }

  clear(): void {
    this.#followers.clear();
    this.#byName.clear();
    this.#selecting.clear();
  }

  /** Every test. */
  all(): readonly Request[] {
    return [...this.#followers.values()].map(({ request }) => request);
  }

  /** The tests that follow an object, given before and after a change. */
  concernedBy(name: string, before: WatchedObject | undefined, after: WatchedObject | undefined): readonly Request[] {
    const named = this.#byName.get(name);
    const concerned = [...(named?.values() ?? [])];
    for (const [id, { request, concerns }] of this.#selecting) {
      if (named?.has(id) === true) continue;
      if ([after, before].some((object) => object !== undefined && concerns?.(object) === true)) concerned.push(request);
    }
    return concerned;
  }

  #forget(name: string, id: string): void {
    const followers = this.#byName.get(name);
    followers?.delete(id);
    if (followers?.size === 0) this.#byName.delete(name);
  }
}
