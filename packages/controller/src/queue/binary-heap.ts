/** An element of a {@link BinaryHeap}. It stores its index, so that it can be moved and removed without a search. */
export interface HeapElement {
  /** Written by the heap; -1 outside a heap. An element is in at most one heap. */
  heapIndex: number;
}

/** A binary heap with removal and reordering of any element in O(log n). */
export class BinaryHeap<E extends HeapElement> {
  readonly #elements: E[] = [];
  readonly #isBefore: (a: E, b: E) => boolean;

  constructor(isBefore: (a: E, b: E) => boolean) {
    this.#isBefore = isBefore;
  }

  get size(): number {
    return this.#elements.length;
  }

  peek(): E | undefined {
    return this.#elements[0];
  }

  push(element: E): void {
    this.#place(element, this.#elements.length);
    this.#rise(element);
  }

  pop(): E | undefined {
    const first = this.#elements[0];
    if (first !== undefined) this.remove(first);
    return first;
  }

  remove(element: E): void {
    const at = element.heapIndex;
    const last = this.#elements.pop();
    element.heapIndex = -1;
    if (last === undefined || last === element) return;
    this.#place(last, at);
    this.update(last);
  }

  /** Restores the order after the key of an element has changed. */
  update(element: E): void {
    this.#rise(element);
    this.#sink(element);
  }

  *[Symbol.iterator](): Generator<E, void, undefined> {
    yield* this.#elements;
  }

  #place(element: E, at: number): void {
    this.#elements[at] = element;
    element.heapIndex = at;
  }

  #rise(element: E): void {
    let at = element.heapIndex;
    while (at > 0) {
      const parentAt = (at - 1) >> 1;
      const parent = this.#elements[parentAt];
      if (parent === undefined || !this.#isBefore(element, parent)) break;
      this.#place(parent, at);
      at = parentAt;
    }
    this.#place(element, at);
  }

  #sink(element: E): void {
    let at = element.heapIndex;
    for (;;) {
      let childAt = 2 * at + 1;
      let child = this.#elements[childAt];
      if (child === undefined) break;
      const right = this.#elements[childAt + 1];
      if (right !== undefined && this.#isBefore(right, child)) {
        child = right;
        childAt++;
      }
      if (!this.#isBefore(child, element)) break;
      this.#place(child, at);
      at = childAt;
    }
    this.#place(element, at);
  }
}
