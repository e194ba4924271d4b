export { type FolderLock, folderHolder, lockFolder } from "./files/folder-lock.ts";
export { writeFileAtomic } from "./files/atomic-file.ts";
export { openSealedText, sealText } from "./files/sealed-text.ts";
export { openBeneath } from "./files/open-beneath.ts";
export type { OpenBeneathOptions, OpenedBeneath } from "./files/open-beneath.ts";
export { PathError } from "./files/path-error.ts";
export { pathInRoot } from "./files/root-path.ts";
export { isMountPoint, mountPointsBelow, readMountPoints } from "./files/mount-points.ts";
export { removeTree } from "./files/remove-tree.ts";
