/**
 * The body of the watchdog's thread. It is executed from its source text, so it must not refer to anything outside of itself.
 *
 * The main thread increments `workerData.beats`. While that stands still, V8's inspector interrupts the main thread, even in a tight
 * loop, and returns its call stack.
 */
export function watchMainThread(): void {
  const { Session } = process.getBuiltinModule("node:inspector");
  const { parentPort, workerData } = process.getBuiltinModule("node:worker_threads");
  const { writeSync } = process.getBuiltinModule("node:fs");
  const { beats, thresholdMs, name } = workerData as { beats: Int32Array; thresholdMs: number; name: string };
  const repeatMs = 10_000;
  const maxFrames = 12;
  let last = -1;
  let lastAt = performance.now();
  let reportAfterMs = thresholdMs;

  const report = (blockedMs: number, stack: readonly string[]): void => {
    const where = stack.length === 0 ? "" : ` in ${stack.join(" < ")}`;
    writeSync(2, `${name}: event loop blocked for ${Math.round(blockedMs)} ms${where}\n`);
    parentPort?.postMessage({ blockedMs, stack });
  };
  const inspect = (blockedMs: number): void => {
    const session = new Session();
    // JavaScript is interrupted earlier, even on a busy machine; native code never.
    const giveUpAt = performance.now() + 10_000;
    const stalledAt = last;
    let isDone = false;
    const finish = (stack: readonly string[]): void => {
      if (isDone) return;
      isDone = true;
      clearInterval(timer);
      session.post("Debugger.resume", () => session.disconnect());
      report(blockedMs, stack);
    };
    const timer = setInterval(() => {
      if (Atomics.load(beats, 0) !== stalledAt || performance.now() >= giveUpAt) finish([]);
    }, thresholdMs / 4);
    try {
      session.connectToMainThread();
      session.on("Debugger.paused", ({ params }) => {
        const frames = params.callFrames.slice(0, maxFrames);
        finish(
          frames.map(
            ({ functionName, url, location }) =>
              `${functionName === "" ? "anonymous" : functionName} (${url.split("/").slice(-2).join("/")}:${location.lineNumber + 1})`,
          ),
        );
      });
      session.post("Debugger.enable", () => session.post("Debugger.pause"));
    } catch {
      clearInterval(timer);
      report(blockedMs, []);
    }
  };
  setInterval(() => {
    const now = performance.now();
    const beat = Atomics.load(beats, 0);
    if (beat !== last) {
      last = beat;
      lastAt = now;
      reportAfterMs = thresholdMs;
    } else if (now - lastAt >= reportAfterMs) {
      reportAfterMs = now - lastAt + repeatMs;
      inspect(now - lastAt);
    }
  }, thresholdMs / 4);
}
