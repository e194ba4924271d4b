import type { RequestInfo } from "../endpoints/request-info.ts";

/** Maximum number of seats of one request. Same as kube-apiserver. */
const maxSeats = 10;
/** Objects and bytes of a list per seat. */
const objectsPerSeat = 100;
const bytesPerSeat = 1024 * 1024;
/** Collections to remember. */
const maxCollections = 1_024;

/** The size of a collection's last list. */
export interface ListSize {
  readonly items: number;
  readonly bytes: number;
}

/** Estimates the seats of a request: lists of large collections need several. The first list of a collection is assumed to be small. */
export class WorkEstimator {
  readonly #sizes = new Map<string, ListSize>();

  /** Number of seats for a request. `limit` is the page size of a list. */
  seatsOf(info: RequestInfo, limit?: string): number {
    if (!info.isResource || (info.verb !== "list" && info.verb !== "watch")) return 1;
    const size = this.#sizes.get(collectionOf(info));
    if (size === undefined) return 1;
    const page = Number(limit) > 0 ? Math.min(1, Number(limit) / Math.max(1, size.items)) : 1;
    const seats = Math.max((size.items * page) / objectsPerSeat, (size.bytes * page) / bytesPerSeat);
    return Math.max(1, Math.min(maxSeats, Math.ceil(seats)));
  }

  /** Records the size of a complete list. */
  record(info: RequestInfo, size: ListSize): void {
    if (!info.isResource) return;
    const collection = collectionOf(info);
    this.#sizes.delete(collection);
    this.#sizes.set(collection, size);
    if (this.#sizes.size > maxCollections) for (const oldest of this.#sizes.keys()) if (this.#sizes.delete(oldest)) break;
  }
}

function collectionOf(info: Extract<RequestInfo, { isResource: true }>): string {
  return `${info.group}/${info.resource}/${info.namespace}`;
}
