import { BinaryHeap, type HeapElement } from "./binary-heap.ts";

/** An item of {@link ReadyItems}. Only `ReadyItems` writes `bucket`, `previous` and `next`. */
export interface ReadyItem<E> {
  /** Must not change while the item is in the list. */
  readonly priority: number;
  /** Position within a priority. Must not change while the item is in the list. */
  readonly order: number;
  bucket: Bucket<E> | undefined;
  previous: E | undefined;
  next: E | undefined;
}

/** The items of one priority, as a linked list in order. */
interface Bucket<E> extends HeapElement {
  readonly priority: number;
  first: E | undefined;
  last: E | undefined;
}

/**
 * Items by priority, then by order. Adding the newest item, removing any item and taking the first one take constant time,
 * independent of the number of items:
 *
 * ```text
 *   heap of priorities     5         0         -100
 *                          |         |          |
 *   linked lists           a - b     c - d - e  f
 * ```
 */
export class ReadyItems<E extends ReadyItem<E>> {
  readonly #buckets = new Map<number, Bucket<E>>();
  readonly #heap = new BinaryHeap<Bucket<E>>((a, b) => a.priority > b.priority);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Adds an item. Takes constant time if it is the newest of its priority, and one step for each newer one otherwise. */
  push(item: E): void {
    const bucket = this.#bucket(item.priority);
    let previous = bucket.last;
    while (previous !== undefined && previous.order > item.order) previous = previous.previous;
    const next = previous === undefined ? bucket.first : previous.next;
    item.bucket = bucket;
    item.previous = previous;
    item.next = next;
    if (previous === undefined) bucket.first = item;
    else previous.next = item;
    if (next === undefined) bucket.last = item;
    else next.previous = item;
    this.#size++;
  }

  remove(item: E): void {
    const { bucket, previous, next } = item;
    if (bucket === undefined) return;
    if (previous === undefined) bucket.first = next;
    else previous.next = next;
    if (next === undefined) bucket.last = previous;
    else next.previous = previous;
    item.bucket = undefined;
    item.previous = undefined;
    item.next = undefined;
    this.#size--;
  }

  /** Removes and returns the first item of the highest priority. */
  shift(): E | undefined {
    for (let bucket = this.#heap.peek(); bucket !== undefined; bucket = this.#heap.peek()) {
      const { first } = bucket;
      if (first !== undefined) {
        this.remove(first);
        return first;
      }
      // Empty buckets stay until they are on top: most priorities are used again soon.
      this.#heap.pop();
      this.#buckets.delete(bucket.priority);
    }
    return undefined;
  }

  clear(): void {
    for (let item = this.shift(); item !== undefined; item = this.shift());
  }

  #bucket(priority: number): Bucket<E> {
    let bucket = this.#buckets.get(priority);
    if (bucket === undefined) {
      bucket = { priority, first: undefined, last: undefined, heapIndex: -1 };
      this.#buckets.set(priority, bucket);
      this.#heap.push(bucket);
    }
    return bucket;
  }
}
