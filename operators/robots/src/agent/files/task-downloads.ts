/** Downloads of tasks in progress, at most one per task. They run alongside the effects on their task, which must not wait for them. */
export class TaskDownloads {
  readonly #running = new Map<string, { readonly cancel: AbortController; readonly done: Promise<void> }>();

  /** Starts the download of a task. `download` never rejects; its signal is aborted by {@link cancel}. */
  start(uid: string, download: (signal: AbortSignal) => Promise<void>): void {
    const cancel = new AbortController();
    const done = download(cancel.signal).finally(() => this.#running.delete(uid));
    this.#running.set(uid, { cancel, done });
  }

  has(uid: string): boolean {
    return this.#running.has(uid);
  }

  /** Cancels the download of a task. When this resolves, it no longer writes files. */
  async cancel(uid: string): Promise<void> {
    const running = this.#running.get(uid);
    running?.cancel.abort(new Error("the download was cancelled"));
    await running?.done;
  }

  /** Cancels all downloads. What they have received is kept. */
  async stop(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((uid) => this.cancel(uid)));
  }
}
