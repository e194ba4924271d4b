import { revisionAnnotation } from "../api/names.ts";
import type { Role } from "../controllers/group/observation.ts";
import type { PodView } from "../controllers/group/pod-view.ts";

/**
 * The Pod `p-<ordinal>` at 127.0.0.1<ordinal>: by default an up-to-date replica of `p-0` that is in sync.
 * `isWanted`: whether the Pod is part of the desired state. `configHash`: hash of the desired parameters. `isHeld`: whether the partition holds it.
 */
export function podView(
  ordinal: number,
  role: Partial<Role>,
  { revision = "r2", isWanted = true, configHash = "new", isHeld = false } = {},
): PodView {
  const name = `p-${ordinal}`;
  return {
    name,
    pod: { metadata: { name, uid: `uid-${ordinal}`, annotations: { [revisionAnnotation]: revision } } } as never,
    instance: isWanted ? ({ name, revision: "r2", parameters: {}, configHash, isHeld } as never) : undefined,
    role: { role: "replica", primaryHost: "127.0.0.10", isInSync: true, configHash: "new", ...role },
    ip: `127.0.0.1${ordinal}`,
  };
}
