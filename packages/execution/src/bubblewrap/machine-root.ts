/** Folders of the machine that a program without an image sees, read-only, where they are. */
export const machineFolders = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"];

/** What hides in the machine's own `/etc`: nothing of it is for a program that is kept apart from the machine. */
export const hiddenFiles = ["/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers"];

/** Where a program with an image has its work folder. */
export const imageWork = "/work";
