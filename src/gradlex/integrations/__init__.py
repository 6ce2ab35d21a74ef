"""Adapters to libraries that people already use, each a module of its own, imported only on request.

`pip install 'gradlex[integrations]'` installs the libraries that select. With the same seed an adapter chooses the
parents that `gradlex.selection.select_parents` chooses from the same errors. `sklearn` has estimators that train.
"""
