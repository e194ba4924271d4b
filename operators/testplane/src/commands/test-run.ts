import { setMaxListeners } from "node:events";
import { type DeepReadonly, isMissingKind, isNotFound, type ResourceType } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { CommandContext, FlagDefinition } from "@keelson/operator";
import { countFlag, durationFlag, switchFlag } from "@keelson/operator/flags";
import { IntegrationTest } from "../api/integration-test.ts";
import { LoadTest } from "../api/load-test.ts";
import { isFinished } from "../controllers/test-status.ts";
import { reportFlags, writeReports } from "../reports/write-reports.ts";
import { printable } from "../reports/printable.ts";
import { saveTest } from "./saved-test.ts";
import { progressLines } from "./progress.ts";
import { type ReportedTest, reportTest, type TestReport } from "../reports/report.ts";
import type { TestManifest } from "./test-files.ts";

type Test = IntegrationTest | LoadTest;

const fieldManager = "keelson-test-run";

/** Exit codes of commands that run tests. */
export const exit = { succeeded: 0, failed: 1, bad: 2, timedOut: 124, interrupted: 130 } as const;

const timeoutFlag = durationFlag({
  name: "timeout",
  value: "TIME",
  description: "maximum duration of the run, such as 90s or 10m (exits with 124)",
  minMs: 1,
});
const parallelFlag = countFlag({
  name: "parallel",
  value: "N",
  description: "maximum number of tests that run at the same time (default: all)",
  min: 1,
});
const failFastFlag = switchFlag({ name: "fail-fast", description: "start no more tests after one fails" });

/** Flags of commands that run tests. */
export const testRunFlags: readonly FlagDefinition[] = [
  timeoutFlag,
  parallelFlag,
  failFastFlag,
  ...reportFlags,
  { name: "delete", description: "delete the tests and the objects that they created after they finish" },
];

/** One run of tests: creates them, follows them, and reports. */
export class TestRun {
  readonly #context: CommandContext;
  readonly #client: Client;
  readonly #manifests: readonly TestManifest[];
  readonly #latest = new Map<TestManifest, DeepReadonly<Test>>();
  readonly #created = new Set<TestManifest>();
  readonly #abort = new AbortController();
  #isTimedOut = false;
  #hasFailed = false;

  /** **Errors**: `UsageError` for an invalid flag. */
  constructor(context: CommandContext, client: Client, manifests: readonly TestManifest[]) {
    this.#context = context;
    this.#client = client;
    this.#manifests = manifests;
    for (const flag of [timeoutFlag, parallelFlag]) flag.read(context.flags);
    // Every request of every test listens to this signal.
    setMaxListeners(0, this.#abort.signal);
  }

  /** Resolves to the exit status. */
  async run(): Promise<number> {
    const { signal, clock, flags, stderr } = this.#context;
    const stop = (): void => this.#abort.abort();
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    const timeoutMs = timeoutFlag.read(flags);
    const timer =
      timeoutMs === undefined
        ? undefined
        : clock.setTimer(timeoutMs, () => {
            this.#isTimedOut = true;
            stop();
          });
    try {
      const settled = await this.#followAll();
      const isStopped = this.#abort.signal.aborted;
      const errors = settled.flatMap((each) => (each.status === "rejected" ? [each.reason as unknown] : []));
      if (!isStopped) for (const line of new Set(errors.map(errorLine))) stderr.write(`${line}\n`);
      const reports = this.#reports();
      await this.#writeReports(reports);
      await this.#cleanUp(isStopped);
      if (this.#isTimedOut) {
        stderr.write(`not finished within ${String(flags["timeout"])}\n`);
        return exit.timedOut;
      }
      if (signal.aborted) return exit.interrupted;
      if (errors.length > 0) return exit.bad;
      return reports.every(({ isSuccess }) => isSuccess) ? exit.succeeded : exit.failed;
    } finally {
      timer?.cancel();
      signal.removeEventListener("abort", stop);
    }
  }

  /** Runs the tests, at most `--parallel` at the same time. */
  async #followAll(): Promise<readonly PromiseSettledResult<void>[]> {
    const { flags } = this.#context;
    const waiting = [...this.#manifests];
    const results: PromiseSettledResult<void>[] = [];
    const work = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        if (this.#hasFailed && failFastFlag.read(flags)) this.#say(next, "not started: another test failed");
        else results.push(...(await Promise.allSettled([this.#follow(next)])));
      }
    };
    const workers = Math.min(parallelFlag.read(flags) ?? waiting.length, waiting.length);
    await Promise.all(Array.from({ length: workers }, work));
    return results;
  }

  /** Creates a test, or attaches to a running one, and prints its progress until it finishes. */
  async #follow(manifest: TestManifest): Promise<void> {
    const { signal } = this.#abort;
    const type = typeOf(manifest);
    const key = this.#keyOf(manifest);
    const present = await this.#present(manifest);
    if (present === undefined) await this.#create(manifest);
    else if (isFinished(present.status)) await this.#replace(manifest, present);
    else this.#say(manifest, "is already running; following it");
    while (!signal.aborted) {
      const list = await this.#client.list(type, { ...only(key), signal });
      const [now] = list.items;
      if (now === undefined) throw new Error(`${manifest.kind} ${key.name} was deleted while it ran`);
      if (this.#update(manifest, { ...now, apiVersion: "", kind: manifest.kind } as DeepReadonly<Test>)) return;
      const watch = await this.#client.watch(type, {
        ...only(key),
        resourceVersion: list.metadata.resourceVersion ?? "",
        signal,
      });
      for await (const event of watch) {
        if (event.type === "DELETED") throw new Error(`${manifest.kind} ${key.name} was deleted while it ran`);
        if (event.type === "ERROR") break;
        if (event.type !== "BOOKMARK" && this.#update(manifest, event.object)) {
          watch.close();
          return;
        }
      }
    }
  }

  async #create(manifest: TestManifest): Promise<void> {
    const { name, spec, labels, annotations = {} } = manifest;
    const metadata = {
      ...{ name, namespace: this.#keyOf(manifest).namespace },
      ...(Object.keys(labels).length === 0 ? {} : { labels }),
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    };
    const options = { fieldManager, fieldValidation: "Strict", signal: this.#abort.signal } as const;
    await this.#client.create<Test>(typeOf(manifest), { metadata, spec } as never, options);
    this.#created.add(manifest);
    this.#say(manifest, "started");
  }

  /** Deletes the result of the last run, and creates the test again. Keeps a copy on disk until then, as the cluster has none. */
  async #replace(manifest: TestManifest, present: DeepReadonly<Test>): Promise<void> {
    const copy = manifest.original === undefined ? undefined : await saveTest(manifest.original, manifest.name);
    try {
      await this.#deleteAndWait(manifest, present);
      await this.#create(manifest);
    } catch (error) {
      if (copy !== undefined)
        this.#context.stderr.write(
          `${manifest.name}: not started; if the test was deleted, run: kubectl create -f ${copy.path}\n`,
        );
      throw error;
    }
    await copy?.remove();
  }

  /** Prints what changed. Returns whether the test has finished. */
  #update(manifest: TestManifest, test: DeepReadonly<Test>): boolean {
    for (const line of progressLines(this.#latest.get(manifest), test)) this.#say(manifest, line);
    this.#latest.set(manifest, test);
    const isDone = isFinished(test.status) && !collectsOutput(test);
    if (isDone && test.status?.phase !== "Succeeded") this.#hasFailed = true;
    return isDone;
  }

  #say(manifest: TestManifest, text: string): void {
    this.#context.stdout.write(`${manifest.name}\t${printable(text)}\n`);
  }

  #keyOf({ name, namespace }: TestManifest): { readonly name: string; readonly namespace: string } {
    return { name, namespace: namespace ?? String(this.#context.flags["namespace"] ?? "default") };
  }

  async #present(manifest: TestManifest): Promise<DeepReadonly<Test> | undefined> {
    try {
      return await this.#client.get(typeOf(manifest), this.#keyOf(manifest), { signal: this.#abort.signal });
    } catch (error) {
      if (isNotFound(error) && !isMissingKind(error)) return undefined;
      throw error;
    }
  }

  async #deleteAndWait(manifest: TestManifest, test: DeepReadonly<Test>): Promise<void> {
    const { signal } = this.#abort;
    const type = typeOf(manifest);
    const key = this.#keyOf(manifest);
    const list = await this.#client.list(type, { ...only(key), signal });
    const watch = await this.#client.watch(type, {
      ...only(key),
      resourceVersion: list.metadata.resourceVersion ?? "",
      signal,
    });
    const { uid } = test.metadata;
    // Foreground: the objects of the last run must be gone before the new run creates them.
    await this.#client.delete(type, key, {
      propagationPolicy: "Foreground",
      ...(uid === undefined ? {} : { preconditions: { uid } }),
      signal,
    });
    for await (const event of watch) if (event.type === "DELETED") break;
    watch.close();
  }

  #reports(): readonly TestReport[] {
    return this.#manifests.map((manifest) =>
      reportTest({ kind: manifest.kind, ...this.#keyOf(manifest), object: this.#latest.get(manifest) } as ReportedTest),
    );
  }

  async #writeReports(reports: readonly TestReport[]): Promise<void> {
    await writeReports(this.#context.flags, reports);
  }

  /** Deletes the tests that this invocation created: running ones if it was stopped, all with `--delete`. */
  async #cleanUp(isStopped: boolean): Promise<void> {
    const deletesAll = this.#context.flags["delete"] === true;
    for (const manifest of this.#created) {
      const isRunning = !isFinished(this.#latest.get(manifest)?.status);
      if (!deletesAll && !(isStopped && isRunning)) continue;
      try {
        await this.#client.delete(typeOf(manifest), this.#keyOf(manifest), { propagationPolicy: "Background" });
        if (isRunning) this.#say(manifest, "stopped and deleted");
      } catch (error) {
        if (!isNotFound(error))
          this.#context.stderr.write(
            `${manifest.name}: could not delete the test: ${error instanceof Error ? error.message : String(error)}\n`,
          );
      }
    }
  }
}

const errorLine = (error: unknown): string =>
  isMissingKind(error)
    ? "the API server does not serve infra.testplane.io/v1alpha1; start `keelson up` with testplane, or run `keelson install --only testplane`"
    : error instanceof Error
      ? error.message
      : String(error);

const typeOf = ({ kind }: TestManifest): ResourceType<Test> =>
  (kind === "IntegrationTest" ? IntegrationTest : LoadTest) as unknown as ResourceType<Test>;

const only = ({ name, namespace }: { readonly name: string; readonly namespace: string }) => ({
  namespace,
  fieldSelector: `metadata.name=${name}`,
});

/** Whether the output of a finished load test is still being stored. */
const collectsOutput = ({ status }: DeepReadonly<Test>): boolean =>
  status !== undefined && "workloadApplied" in status && status.workloadApplied === true && status.outputCollected !== true;
