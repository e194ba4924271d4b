import type { FlagValues } from "@keelson/operator";
import { invalidFlag, listFlag } from "@keelson/operator/flags";

/** A volume of a sandbox, as the fast path takes it. */
interface Volume {
  readonly name: string;
  readonly mountPath: string;
  readonly readOnly: boolean;
}

/** `--volume` of `keelson sandbox run`. */
export const volumeFlag = listFlag({
  name: "volume",
  value: "NAME:PATH[:ro]",
  description: "volume to mount, such as data:/data; ro: without write access, so that sandboxes can share it",
});

/** The volumes of `--volume`. Throws a `UsageError`. */
export const readVolumes = (flags: FlagValues): Volume[] => volumeFlag.read(flags).map(readVolume);

function readVolume(text: string): Volume {
  const [name = "", mountPath = "", mode, ...rest] = text.split(":");
  if (name === "" || !mountPath.startsWith("/") || (mode !== undefined && mode !== "ro") || rest.length > 0)
    throw invalidFlag(volumeFlag, text, "must be of the form NAME:/PATH or NAME:/PATH:ro");
  return { name, mountPath, readOnly: mode === "ro" };
}
