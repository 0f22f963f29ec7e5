//! Names that change, and files that are open without one.

use std::io::Seek;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::*;

impl Store {
    /// How many files the engine keeps objects in.
    fn objects(&self) -> usize {
        let below = |dir: PathBuf| {
            let entries = std::fs::read_dir(dir).into_iter().flatten();
            entries.map(|entry| entry.unwrap().path())
        };
        let objects = (0..3).map(|dir| self.root.path().join(format!("s{dir}/objects")));
        objects.flat_map(below).flat_map(below).count()
    }
}

/// Runs a shell command where its first word is installed; says so where not.
fn shell_with(program: &str, command: &str) {
    if Command::new(program).arg("--version").output().is_ok() {
        return shell(command);
    }
    println!("SKIPPED: {program} in a mount: apt-get install {program}");
}

#[test]
fn programs_rename_files() {
    let Some(store) = Store::new() else { return };
    let mounted = store.mount("mnt");
    std::fs::write(store.root.path().join("from"), random(1, 3_000_017)).unwrap();
    let (from, at) = (store.root.path().join("from"), mounted.at.display());
    let from = from.display();
    shell(&format!(
        "set -e; cd {at}; mkdir d; cp {from} d/file; mv d/file top; cmp {from} top; test ! -e d/file
         test -d d; echo old >other; mv top other; cmp {from} other; test ! -e top
         echo new >top; mv -n top other; cmp {from} other; test $(cat top) = new
         mv other d/; cmp {from} d/other; sed -i s/new/newer/ top; test $(cat top) = newer
         mv d e; cmp {from} e/other; test ! -e d; rm -r e"
    ));
    assert_eq!(super::names(&mounted.at), ["top"]);
    eventually("only what has a name is kept", || store.objects() == 1);
    let rename = |from: &str, to: &str, flags| {
        renameat_with(CWD, mounted.path(from), CWD, mounted.path(to), flags)
    };
    std::fs::write(mounted.path("other"), "other").unwrap();
    std::fs::create_dir_all(mounted.path("d/below")).unwrap();
    assert_eq!(rename("top", "other", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    assert_eq!(rename("top", "other", RenameFlags::EXCHANGE), Err(Errno::INVAL));
    assert_eq!(rename("none", "other", RenameFlags::empty()), Err(Errno::NOENT));
    assert_eq!(rename("d", "e", RenameFlags::empty()), Err(Errno::XDEV));
    assert_eq!(rename("top", "top", RenameFlags::empty()), Ok(()));
    let long = "x".repeat(250);
    assert_eq!(
        rename("top", &format!("d/below/{long}"), RenameFlags::empty()),
        Err(Errno::NAMETOOLONG)
    );
    assert_eq!(rename("top", "free", RenameFlags::NOREPLACE), Ok(()));
    assert_eq!(super::names(&mounted.at), ["d", "free", "other"]);
    // Another mount sees the same.
    let other = store.mount("other");
    assert_eq!(std::fs::read(other.path("free")).unwrap(), b"newer\n");
    std::fs::rename(other.path("free"), other.path("again")).unwrap();
    eventually("it sees the new name", || mounted.path("again").exists());
    eventually("the old name is gone", || !mounted.path("free").exists());
}

#[test]
fn version_control_archives_and_databases_work() {
    let Some(store) = Store::new() else { return };
    let mounted = store.mount("mnt");
    let (root, at) = (store.root.path().display(), mounted.at.display());
    shell(&format!(
        "mkdir -p {root}/tree/a/b; seq 9999 >{root}/tree/a/b/long; echo x >{root}/tree/x"
    ));
    shell_with(
        "git",
        &format!(
            "set -e; export HOME={root} GIT_CONFIG_NOSYSTEM=1
             git config --global user.email a@b.c; git config --global user.name n
             git init -q {at}/git; cd {at}/git; cp -r {root}/tree .; git add .; git commit -qm one
             echo y >>tree/x; git commit -qam two; git mv tree/x y; git commit -qm three
             git clone -q {at}/git {at}/clone; cd {at}/clone; git gc -q; git fsck --strict
             test $(git log --oneline | wc -l) = 3; test -z \"$(git status --porcelain)\"
             cmp tree/a/b/long {root}/tree/a/b/long; git checkout -q HEAD~2; cmp tree/x {root}/tree/x"
        ),
    );
    shell_with(
        "tar",
        &format!(
            "set -e; cd {at}; tar -C {root} -cf t.tar tree; mkdir out; tar -C out -xf t.tar
             tar -C out -xf t.tar; diff -r {root}/tree out/tree"
        ),
    );
    for journal in ["delete", "truncate", "persist"] {
        shell_with(
            "sqlite3",
            &format!(
                "set -e; cd {at}; db={journal}.db; sqlite3 $db 'pragma journal_mode={journal};
                 create table t(n integer primary key, word text);'
                 seq 2000 | sed \"s/.*/insert into t values(&, 'word &');/\" >in.sql
                 (echo 'pragma journal_mode={journal}; begin;'; cat in.sql; echo 'commit;') | sqlite3 $db
                 sqlite3 $db 'pragma journal_mode={journal}; begin; delete from t; rollback;
                 delete from t where n > 1000;'
                 test $(sqlite3 $db 'select count(*) from t') = 1000
                 test $(sqlite3 $db 'pragma integrity_check') = ok"
            ),
        );
    }
}

#[test]
fn readers_see_one_file_or_the_other() {
    let Some(store) = Store::new() else { return };
    let mounted = store.mount("mnt");
    let (path, fresh) = (mounted.path("file"), mounted.path("fresh"));
    let content = |generation: u8| vec![generation; 70_000 + usize::from(generation) * 1_000];
    std::fs::write(&path, content(0)).unwrap();
    let done = AtomicBool::new(false);
    let reads = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut reads = 0;
                    while !done.load(Ordering::Relaxed) {
                        let read = std::fs::read(&path).unwrap();
                        assert!(read == content(read[0]), "{} bytes of {}", read.len(), read[0]);
                        reads += 1;
                    }
                    reads
                })
            })
            .collect();
        for generation in 1..100 {
            std::fs::write(&fresh, content(generation)).unwrap();
            std::fs::rename(&fresh, &path).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u32>()
    });
    println!("{reads} reads");
    assert!(reads > 2 && std::fs::read(&path).unwrap() == content(99));
    eventually("nothing else is kept", || store.objects() == 1);
}

#[test]
fn a_removed_file_is_there_for_who_has_it_open() {
    let Some(store) = Store::new() else { return };
    let mounted = store.mount("mnt");
    let data = random(4, 2_500_000);
    let open = || OpenOptions::new().read(true).write(true).open(mounted.path("file")).unwrap();
    let read = |mut file: &File| {
        let mut read = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut read).unwrap();
        read
    };
    for replaced in [false, true] {
        std::fs::write(mounted.path("file"), &data).unwrap();
        let (first, second) = (open(), open());
        let inode = first.metadata().unwrap().ino();
        if replaced {
            std::fs::write(mounted.path("fresh"), "new").unwrap();
            std::fs::rename(mounted.path("fresh"), mounted.path("file")).unwrap();
        } else {
            std::fs::remove_file(mounted.path("file")).unwrap();
            assert_eq!(super::names(&mounted.at), Vec::<String>::new());
            std::fs::write(mounted.path("file"), "new").unwrap();
        }
        assert!(read(&first) == data && read(&second) == data, "replaced: {replaced}");
        first.write_all_at(b"more", 3_000_000).unwrap();
        let metadata = second.metadata().unwrap();
        assert_eq!((metadata.nlink(), metadata.ino(), metadata.len()), (0, inode, 3_000_004));
        drop(first);
        assert_eq!(read(&second)[2_999_998..], *b"\0\0more");
        second.set_len(0).unwrap();
        second.write_all_at(b"short", 0).unwrap();
        assert_eq!(read(&second), b"short");
        assert_eq!(std::fs::read(mounted.path("file")).unwrap(), b"new");
        assert_eq!(super::names(&mounted.at), ["file"]);
        // A program reads on from what it has removed itself.
        shell(&format!("cd {}; exec <file; rm file; test $(cat) = new", mounted.at.display()));
        drop(second);
        eventually("its bytes are gone", || store.objects() == 0);
    }
}

#[test]
fn what_a_killed_mount_kept_goes_with_the_next() {
    let Some(store) = Store::new() else { return };
    let (mut mounted, other) = (store.mount("mnt"), store.mount("other"));
    let keep = |mounted: &Mounted, name: &str| {
        std::fs::write(mounted.path(name), random(9, 100_000)).unwrap();
        let file = File::open(mounted.path(name)).unwrap();
        std::fs::remove_file(mounted.path(name)).unwrap();
        file
    };
    let (lost, kept) = (keep(&mounted, "lost"), keep(&other, "kept"));
    assert_eq!(store.objects(), 2);
    mounted.kill();
    drop(lost);
    let mut mounted = store.mount("mnt");
    assert_eq!(store.objects(), 1, "what others have open stays");
    let mut read = vec![0; 100_000];
    kept.read_exact_at(&mut read, 0).unwrap();
    assert!(read == random(9, 100_000));
    // A mount that ends as it should leaves nothing, whoever has something open.
    let open = keep(&mounted, "open");
    assert_eq!(store.objects(), 2);
    mounted.unmount();
    drop(open);
    assert_eq!(mounted.command.wait().unwrap().code(), Some(0));
    assert_eq!(store.objects(), 1);
}

#[test]
fn a_kill_leaves_one_of_two_names() {
    let Some(store) = Store::new() else { return };
    let mut rng = Rng::new(11);
    let data = random(12, 10_000);
    let mut renames = 0;
    for round in 0..8 {
        let mut mounted = store.mount("mnt");
        let [a, b] = ["a", "b"].map(|name| mounted.path(name));
        if round == 0 {
            std::fs::write(&a, &data).unwrap();
        }
        let found = super::names(&mounted.at);
        assert!(found == ["a"] || found == ["b"], "round {round}: {found:?}");
        assert!(std::fs::read(mounted.path(&found[0])).unwrap() == data, "round {round}");
        let names = if found == ["a"] { [a, b] } else { [b, a] };
        let renaming = std::thread::spawn(move || {
            let there_and_back = (0_usize..)
                .take_while(|step| std::fs::rename(&names[step % 2], &names[1 - step % 2]).is_ok());
            there_and_back.count()
        });
        std::thread::sleep(std::time::Duration::from_micros(2_000 + rng.below(40_000)));
        mounted.kill();
        renames += renaming.join().unwrap();
    }
    println!("{renames} renames");
    assert!(renames > 8);
}
