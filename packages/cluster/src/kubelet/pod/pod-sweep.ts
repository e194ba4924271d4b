import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Program } from "@keelson/execution";
import type { Logger } from "@keelson/controller";
import { removePodFolder } from "../volumes/memory-volumes.ts";

/** What {@link sweepDeletedPods} needs of a node. */
export interface SweptNode {
  readonly podsDir: string;
  readonly log: Logger;
  readonly runtimes: { programs(): readonly SweptProgram[] };
  readonly subPaths: PodResources["subPaths"] | undefined;
  readonly network: PodResources["network"] | undefined;
}

type SweptProgram = Pick<Program, "id" | "remove"> & {
  readonly spec: Pick<Program["spec"], "metadata">;
  stop(): Promise<unknown>;
};

/** Resources on the machine that are released by the uids of Pods. */
interface PodResources {
  readonly subPaths: { releaseOthers(isKept: (podUid: string) => boolean): Promise<void> };
  readonly network: { detachOthers(isKept: (podUid: string) => boolean): Promise<void> };
}

/**
 * Stops programs and removes directories of Pods that were deleted while no kubelet ran. A removal that fails is logged and does not stop
 * the others. `onRemove` is called before a Pod's directory is removed.
 */
export async function sweepDeletedPods(
  node: SweptNode,
  isKept: (podUid: string) => boolean,
  onRemove: (podUid: string) => void,
): Promise<void> {
  const { runtimes, podsDir, log, subPaths, network } = node;
  const attempt = async (details: object, work: () => Promise<void> | undefined): Promise<void> => {
    try {
      await work();
    } catch (error) {
      log.warn({ err: error, ...details }, "could not clean up after deleted pods");
    }
  };
  for (const program of runtimes.programs()) {
    const podUid = program.spec.metadata?.["podUid"];
    if (podUid === undefined || isKept(podUid)) continue;
    log.info({ program: program.id }, "stopping a program whose pod was deleted");
    await attempt({ podUid, program: program.id }, async () => {
      await program.stop();
      await program.remove();
    });
  }
  await attempt({}, () => subPaths?.releaseOthers(isKept));
  await attempt({}, () => network?.detachOthers(isKept));
  await attempt({}, async () => {
    for (const podUid of await readdir(podsDir)) {
      if (isKept(podUid)) continue;
      onRemove(podUid);
      await attempt({ podUid }, () => removePodFolder(join(podsDir, podUid)));
    }
  });
}
